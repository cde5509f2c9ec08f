//! From the user's choices to an executor that is ready.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf, absolute},
};

use bench_suite::{
    device::{Choice, unlike_note},
    executors::{self, Executor, Prepared},
    host::DeviceLock,
    plan::{Plan, Request},
    suite::Suite,
};
use images::{Catalog, LibtorchSpec};
use protocol::Device;
use record::{Asked, ImageFacts, Machine, Place, Workload};

use super::{
    Suites,
    prepare::{Chosen, Supply, cache, sources},
    references::{self, is_reference, last_word},
    resume,
};
use crate::{
    cli::{ShareArgs, TargetArgs},
    commands::program::python_of,
    error::{Error, Result},
    printer::Printer,
    workspace,
};

/// Where runs are to execute: an open executor and its hosts, before anything is started.
pub(crate) struct Target<'a> {
    args: &'a TargetArgs,
    pub(crate) root: PathBuf,
    pub(crate) executor: Box<dyn Executor>,
    /// Its word on the command line, with its argument.
    engine: String,
    /// Why no other executor was taken.
    notes: Vec<String>,
    /// The executor's hosts, by name.
    pub(crate) hosts: BTreeMap<String, Machine>,
    /// At least one.
    pub(crate) places: Vec<Place>,
    images: Vec<Chosen>,
}

/// What runs need, and is held while they may come.
pub(crate) struct Ready {
    pub(crate) prepared: Prepared,
    _locks: Vec<DeviceLock>,
    _source: Supply,
}

impl<'a> Target<'a> {
    /// Opens the executor and finds the devices and images that are asked for. An image that is
    /// asked for by its reference is looked at first, and pulled where it has to be: what it is
    /// called stands in it. Those that a session was begun with keep their names. Where all suites
    /// run programs alone, images may be anybody's.
    pub(crate) async fn find(
        args: &'a TargetArgs,
        suites: &[Suite],
        begun_with: &[ImageFacts],
        printer: &Printer,
    ) -> Result<Self> {
        let mut target = Self::open(args, most_ranks(suites)).await?;
        if let Some(command) = of_programs(suites) {
            return target.with_own(&args.image, command, printer).await;
        }
        let (device, root) = (target.device(), &target.root);
        let names = names(&resume::whole(&args.image), device, root)?;
        let references = names.iter().map(String::as_str);
        let references: Vec<&str> = references.filter(|name| is_reference(name)).collect();
        let mut found = match target.executor.store() {
            Some(store) => references::look(&references, store, &args.sources, printer).await?,
            None => BTreeMap::new(),
        };
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

    /// With these images, whoever made them; what each holds is asked of its Python.
    pub(crate) async fn with_own(
        mut self,
        images: &[String],
        command: &[String],
        printer: &Printer,
    ) -> Result<Self> {
        if images.is_empty() {
            return Err(Error::Input(
                "no image to run the program in; name one or several with --image, such as --image \
                 team/train:old --image team/train:new"
                    .to_owned(),
            ));
        }
        // As a session records them, which goes on in any folder.
        let images = resume::whole(images);
        let Some(store) = self.executor.store() else {
            self.images = images
                .iter()
                .map(|name| Chosen::named(name, name))
                .collect();
            return Ok(self);
        };
        let cache = cache(printer)?;
        for reference in &images {
            printer.note(&format!("reading what {reference} holds"));
            let python = python_of(command);
            let found = images::own_image(store, reference, python, &cache).await?;
            self.images.push(Chosen::Own(Box::new(found)));
        }
        references::trim(store, &cache, &self.args.sources)?;
        Ok(self)
    }

    /// Opens the executor that is asked for and finds the devices on its hosts for runs of so many
    /// ranks; without images.
    pub(crate) async fn open(args: &'a TargetArgs, ranks: u32) -> Result<Self> {
        let root = workspace::root()?;
        let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        let engine = args.engine.as_ref().unwrap_or(&executors::Choice::Auto);
        let opened = engine.open(is_ci).await?;
        let executor = opened.executor;
        let hosts = executor.hosts().iter();
        let hosts = hosts.map(|host| (host.name().to_owned(), host.facts()));
        let hosts: Vec<_> = hosts.collect();
        let device = args.device.as_deref().unwrap_or("auto");
        let choice: Choice = device.parse()?;
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let by_name = hosts.iter().map(|(name, machine)| (name.as_str(), machine));
        let places = choice.places(by_name, visible.as_deref(), ranks)?;
        let mut notes = opened.notes;
        let machines = hosts.iter().map(|(_, machine)| machine);
        notes.extend(machines.filter_map(|machine| unlike_note(machine, ranks)));
        Ok(Self {
            args,
            root,
            engine: opened.choice.to_string(),
            notes,
            executor,
            hosts: hosts.into_iter().collect(),
            places,
            images: Vec::new(),
        })
    }

    /// With these images.
    pub(crate) fn with(
        mut self,
        images: impl FnOnce(Device, &Path) -> Result<Vec<Chosen>>,
    ) -> Result<Self> {
        self.images = images(self.device(), &self.root)?;
        Ok(self)
    }

    pub(crate) fn device(&self) -> Device {
        self.places[0].device
    }

    /// The machine that the first device is of.
    pub(crate) fn machine(&self) -> &Machine {
        &self.hosts[&self.places[0].host]
    }

    /// Plans these suites on the images, on the first device.
    pub(crate) fn plan(
        &self,
        suites: &[Suite],
        blocks: Option<u32>,
        order_seed: Option<u64>,
    ) -> Result<Plan> {
        let plan = Plan::new(&Request {
            suites,
            images: &self.names(),
            device: self.device(),
            blocks,
            order_seed,
        })?;
        let executor = self.executor.as_ref();
        let most = executor.most_ranks(self.device());
        let plan = plan.fit_ranks(most, &executor.describe(), &self.places)?;
        plan.check_programs(executor)?;
        Ok(plan)
    }

    /// What the command line asked for, with what was chosen where it left a choice.
    pub(super) fn asked(&self, suites: &Suites, cells: &[String]) -> Asked {
        let images = match self.args.image.as_slice() {
            [] => self.names(),
            given => resume::whole(given),
        };
        let sources = &self.args.sources;
        let whole = |path: &Option<PathBuf>| path.as_ref().and_then(|path| absolute(path).ok());
        Asked {
            suites: resume::whole(&suites.named),
            program: suites.program.clone(),
            cells: cells.to_vec(),
            images,
            device: resume::devices(&self.places),
            engine: self.engine.clone(),
            libtorch: whole(&sources.libtorch),
            scenario_binary: whole(&sources.scenario_binary),
            base_archive: whole(&sources.base_archive),
        }
    }

    fn names(&self) -> Vec<String> {
        let images = self.images.iter();
        images.map(|image| image.name().to_owned()).collect()
    }

    /// Takes the devices for the session of this name and makes ready whatever is missing: fetches,
    /// builds, assembles, loads.
    pub(crate) async fn ready(
        &mut self,
        session: &str,
        share: &ShareArgs,
        printer: &Printer,
    ) -> Result<Ready> {
        for note in &self.notes {
            printer.note(note);
        }
        printer.note(&format!("runs execute {}", self.executor.describe()));
        let (mut locks, mut gpus) = (Vec::new(), Vec::new());
        for place in &self.places {
            let (host, gpu) = (
                self.executor.host(&place.host),
                self.hosts[&place.host].gpu(place.device),
            );
            let is_shared = gpu.map_or(share.share_cpu, |_| share.share_gpu);
            locks.push(host.lock(gpu, session, is_shared)?);
            gpus.extend(gpu.cloned());
        }
        let sources = sources(&self.args.sources, &self.root);
        let source = Supply::new(&self.images, sources, gpus, printer);
        let names = self.names();
        let mut prepared = self.executor.prepare(&names, &self.places, &source).await?;
        prepared.notes.append(&mut self.notes);
        // Where nothing was loaded, for whoever loads it to call it the same.
        for facts in prepared
            .images
            .iter_mut()
            .filter(|facts| facts.reference.is_none())
        {
            let mut chosen = self.images.iter().filter(|one| one.name() == facts.name);
            facts.reference = chosen.find_map(Chosen::reference).map(str::to_owned);
        }
        Ok(Ready {
            prepared,
            _locks: locks,
            _source: source,
        })
    }
}

/// The most processes of a run of these.
pub(crate) fn most_ranks(suites: &[Suite]) -> u32 {
    let scenarios = suites.iter().flat_map(|suite| &suite.scenarios);
    let variants = scenarios.flat_map(|scenario| &scenario.variants);
    variants.map(|one| one.ranks).max().unwrap_or(1)
}

/// The first command, where all that the suites measure is programs.
pub(crate) fn of_programs(suites: &[Suite]) -> Option<&[String]> {
    let scenarios = suites.iter().flat_map(|suite| &suite.scenarios);
    let mut commands = scenarios.map(|scenario| match &scenario.workload {
        Workload::Program { command } => Some(command.as_slice()),
        Workload::Builtin { .. } => None,
    });
    let first = commands.next()??;
    commands.all(|command| command.is_some()).then_some(first)
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
