//! From the user's choices to an executor that is ready.

use std::{
    path::{Path, PathBuf, absolute},
    sync::Arc,
};

use bench_suite::{
    device::Choice,
    executors::{self, Executor, Prepared},
    host::{self, GpuLock, Host},
    plan::{Plan, Request},
    suite::Suite,
};
use images::{Catalog, LibtorchSpec};
use protocol::Device;
use record::{Asked, ImageFacts, Machine};

use super::{
    prepare::{Chosen, Supply, sources},
    references::{self, is_reference, last_word},
    resume,
};
use crate::{
    cli::TargetArgs,
    error::{Error, Result},
    printer::Printer,
    workspace,
};

/// Where runs are to execute, before anything is started.
pub(crate) struct Target<'a> {
    args: &'a TargetArgs,
    pub(crate) root: PathBuf,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) machine: Machine,
    /// At least one.
    pub(crate) devices: Vec<Device>,
    images: Vec<Chosen>,
}

/// An executor with everything that its runs need.
pub(crate) struct Ready {
    pub(crate) executor: Box<dyn Executor>,
    /// Its word on the command line, with its argument.
    pub(crate) engine: String,
    pub(crate) prepared: Prepared,
    /// Held while runs may come.
    _locks: Vec<GpuLock>,
    _source: Supply,
}

impl<'a> Target<'a> {
    /// Finds the devices and images that are asked for. An image that is asked for by its reference
    /// is looked at first, and pulled where it has to be: what it is called stands in it. Those that a
    /// session was begun with keep their names.
    pub(crate) async fn find(
        args: &'a TargetArgs,
        begun_with: &[ImageFacts],
        printer: &Printer,
    ) -> Result<Self> {
        let mut target = Self::with(args, |_, _| Ok(Vec::new()))?;
        let (device, root) = (target.device(), &target.root);
        let names = names(&args.image, device, root)?;
        let references = names.iter().map(String::as_str);
        let references: Vec<&str> = references.filter(|name| is_reference(name)).collect();
        let mut found = references::look(&references, args, printer).await?;
        let mut images = Vec::new();
        for name in &names {
            images.push(if is_reference(name) {
                let found = found.remove(name).map(Box::new);
                Chosen::ReadyMade {
                    name: found
                        .as_ref()
                        .map_or_else(|| last_word(name).to_owned(), |found| found.name.clone()),
                    reference: name.clone(),
                    found,
                }
            } else {
                Chosen::spec(name, device, root)?
            });
        }
        references::name(&mut images, begun_with);
        target.images = images;
        Ok(target)
    }

    /// Finds the devices that are asked for, for these images.
    pub(crate) fn with(
        args: &'a TargetArgs,
        images: impl FnOnce(Device, &Path) -> Result<Vec<Chosen>>,
    ) -> Result<Self> {
        let root = workspace::root()?;
        let host = host::open();
        let machine = host.facts();
        let device = args.device.as_deref().unwrap_or("auto");
        let devices = devices(device, &machine)?;
        let images = images(devices[0], &root)?;
        Ok(Self {
            args,
            root,
            host,
            machine,
            devices,
            images,
        })
    }

    /// The first device.
    pub(crate) fn device(&self) -> Device {
        self.devices[0]
    }

    /// Plans these suites on the images, on the first device.
    pub(crate) fn plan(
        &self,
        suites: &[Suite],
        blocks: Option<u32>,
        order_seed: Option<u64>,
    ) -> Result<Plan> {
        Ok(Plan::new(&Request {
            suites,
            images: &self.names(),
            device: self.device(),
            blocks,
            order_seed,
        })?)
    }

    /// What the command line asked for, with what was chosen where it left a choice.
    pub(super) fn asked(&self, suites: &[String], cells: &[String], engine: &str) -> Asked {
        let images = match self.args.image.as_slice() {
            [] => self.names(),
            given => resume::whole(given),
        };
        let sources = &self.args.sources;
        let whole = |path: &Option<PathBuf>| path.as_ref().and_then(|path| absolute(path).ok());
        Asked {
            suites: resume::whole(suites),
            cells: cells.to_vec(),
            images,
            device: resume::devices(&self.devices),
            engine: engine.to_owned(),
            libtorch: whole(&sources.libtorch),
            scenario_binary: whole(&sources.scenario_binary),
            base_archive: whole(&sources.base_archive),
        }
    }

    fn names(&self) -> Vec<String> {
        self.images
            .iter()
            .map(|image| image.name().to_owned())
            .collect()
    }

    /// Takes the devices for the session of this name, opens the executor and makes ready
    /// whatever is missing: fetches, builds, assembles, loads. An executor for which `refuse` has
    /// an error is left before that.
    pub(crate) async fn ready(
        &self,
        session: &str,
        share_gpu: bool,
        printer: &Printer,
        refuse: impl Fn(&dyn Executor) -> Result<()>,
    ) -> Result<Ready> {
        let used = |gpu: &&record::Gpu| self.devices.contains(&Device::Cuda(gpu.index));
        let gpus = self.machine.gpus.iter().filter(used);
        let locks = gpus
            .map(|gpu| self.host.lock_gpu(gpu, session, share_gpu))
            .collect::<Result<_, _>>()?;
        let engine = self
            .args
            .engine
            .as_ref()
            .unwrap_or(&executors::Choice::Auto);
        let opened = engine.open(&self.host, is_ci()).await?;
        let mut executor = opened.executor;
        for note in &opened.notes {
            printer.note(note);
        }
        printer.note(&format!("runs execute {}", executor.describe()));
        refuse(executor.as_ref())?;
        let sources = sources(&self.args.sources, &self.root);
        let gpus = self.machine.gpus.iter().filter(used).cloned().collect();
        let source = Supply::new(&self.images, sources, gpus, printer);
        let names = self.names();
        let mut prepared = executor.prepare(&names, &self.devices, &source).await?;
        prepared.notes.extend(opened.notes);
        Ok(Ready {
            executor,
            engine: opened.choice.to_string(),
            prepared,
            _locks: locks,
            _source: source,
        })
    }
}

/// Whether images are loaded into an engine where runs are to execute.
pub(crate) async fn loads_images(args: &TargetArgs) -> Result<bool> {
    let engine = args.engine.as_ref().unwrap_or(&executors::Choice::Auto);
    Ok(engine.loads_images(&host::open(), is_ci()).await?)
}

fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// The devices that `--device` means on this machine; at least one.
fn devices(word: &str, machine: &Machine) -> Result<Vec<Device>> {
    let choice: Choice = word
        .parse()
        .map_err(|source| Error::Device(Box::new(source)))?;
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    choice
        .resolve(machine, visible.as_deref())
        .map_err(|source| Error::Device(Box::new(source)))
}

/// The images that the user named, or the one that fits the device.
fn names(given: &[String], device: Device, root: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for name in given {
        if name.contains('*') {
            let mut matching = Catalog::new(&root.join("images")).matching(name)?;
            matching.retain(|name| !all.contains(name));
            all.extend(matching);
        } else {
            all.push(name.clone());
        }
    }
    if all.is_empty() {
        all.push(default_image(device, root)?);
    }
    Ok(all)
}

fn default_image(device: Device, root: &Path) -> Result<String> {
    let catalog = Catalog::new(&root.join("images"));
    let defaults = catalog.defaults()?;
    if !device.is_cuda() {
        return Ok(defaults.cpu);
    }
    // The same libtorch, without 2 GB to download, which may not be possible.
    let LibtorchSpec::Wheels { version, .. } = catalog.image(&defaults.cuda)?.spec.libtorch else {
        return Ok(defaults.cuda);
    };
    let with_cuda = format!("{version}+cu");
    let is_installed = images::installed_version().is_some_and(|v| v.starts_with(&with_cuda));
    Ok(if is_installed {
        defaults.installed
    } else {
        defaults.cuda
    })
}
