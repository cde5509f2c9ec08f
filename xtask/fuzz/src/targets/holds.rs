//! What must hold of whatever was read.

/// An error ended it, as it should: in words that act on no terminal.
pub(super) fn refused(error: &impl std::fmt::Display) -> Result<bool, String> {
    said(&error.to_string())?;
    Ok(false)
}

pub(super) fn said(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("an error without words".to_owned());
    }
    let acts = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    match text.find(acts) {
        None => Ok(()),
        Some(_) => Err(format!("a control character reaches the reader: {text:?}")),
    }
}

pub(super) fn same<T: PartialEq + std::fmt::Debug>(first: &T, second: &T) -> Result<bool, String> {
    if first == second {
        return Ok(true);
    }
    let (first, second) = (format!("{first:?}"), format!("{second:?}"));
    let pairs = first.bytes().zip(second.bytes());
    let from = pairs.take_while(|(a, b)| a == b).count().saturating_sub(60);
    let part = |text: &str| text.chars().skip(from).take(160).collect::<String>();
    Err(format!(
        "read and written it is another: …{} became …{}",
        part(&first),
        part(&second)
    ))
}
