//! Images and volumes of other sizes than the usual one, and patches of volumes.

use crate::{InputKind, Model, Positive, Task, validity::Combination, variant::refuse_if};

/// Edges of a volume or a patch. At the bottom of the model, where it is `multiple_of` times smaller,
/// instance normalisation needs more than one voxel.
fn fits(model: Model, got: Positive, multiple_of: u32) -> Result<(), String> {
    let least = 2 * multiple_of;
    let is_fit = got.get() >= least && got.get().is_multiple_of(multiple_of);
    refuse_if!(
        !is_fit,
        "{model} takes multiples of {multiple_of} from {least} on, got {got}"
    )
}

pub(crate) fn patch_size(asked: &Combination<'_>) -> Result<(), String> {
    let (model, Some(patch)) = (asked.model, asked.variant.patch_size) else {
        return Ok(());
    };
    let InputKind::Volumes { size, multiple_of } = model.input() else {
        return Err(format!("{model} reads no volumes; drop it"));
    };
    fits(model, patch, multiple_of)?;
    let whole = asked.variant.image_size.map_or(size, Positive::get);
    refuse_if!(
        patch.get() > whole,
        "a volume of {whole}³ has no patch of {patch}³; use at most {whole}, or raise image_size"
    )?;
    let takes = matches!(asked.task, Task::Training | Task::Inference);
    refuse_if!(!takes, "patches are for the tasks training and inference")
}

pub(crate) fn image_size(asked: &Combination<'_>) -> Result<(), String> {
    let (model, Some(got)) = (asked.model, asked.variant.image_size) else {
        return Ok(());
    };
    let (size, multiple_of, resizable) = match model.input() {
        InputKind::Volumes { multiple_of, .. } => return fits(model, got, multiple_of),
        InputKind::Images {
            size,
            multiple_of,
            resizable,
        } => (size, multiple_of, resizable),
        _ => return Ok(()),
    };
    refuse_if!(
        !resizable && got.get() != size,
        "{model} reads images of {size} × {size} only, got {got}"
    )?;
    refuse_if!(
        got.get() % multiple_of != 0,
        "{model} takes multiples of {multiple_of}, got {got}"
    )
}
