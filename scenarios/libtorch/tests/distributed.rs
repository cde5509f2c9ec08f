//! Process groups, each rank a process of its own.

use std::{
    env,
    io::Write as _,
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use libtorch::{
    Error, autograd,
    distributed::{
        Collective, ProcessGroup, Reducer, Rendezvous, on_gradient, on_terminate, resize_storage,
    },
};
use tch::{Device, Kind, Tensor};

const FLOAT: (Kind, Device) = (Kind::Float, Device::Cpu);
const RANK: &str = "TORCHGAUGE_TEST_RANK";
const WORLD: u32 = 3;

/// In a rank's process the group; in the test's it starts the ranks and gives them.
fn ranks(test: &str, timeout: Duration) -> Result<(ProcessGroup, u32), Vec<Child>> {
    if let Ok(at) = env::var(RANK) {
        let (rank, port) = at.split_once(' ').unwrap();
        let at = Rendezvous {
            host: "127.0.0.1".into(),
            port: port.parse().unwrap(),
            rank: rank.parse().unwrap(),
            world: WORLD,
            timeout,
        };
        return Ok((ProcessGroup::join(&at, None).unwrap(), at.rank));
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let start = |rank| {
        Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(RANK, format!("{rank} {port}"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    Err((0..WORLD).map(start).collect())
}

fn all_well(children: Vec<Child>) {
    for child in children {
        let output = child.wait_with_output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}");
    }
}

#[test]
fn ranks_exchange_values() {
    let (group, rank) = match ranks("ranks_exchange_values", Duration::from_mins(1)) {
        Ok(rank) => rank,
        Err(children) => return all_well(children),
    };
    let own = || Tensor::full([4], i64::from(rank) + 1, FLOAT);
    let values = |tensor: &Tensor| Vec::<f32>::try_from(tensor).unwrap();

    let sum = own();
    group.run(Collective::AllReduce, &sum, None).unwrap();
    assert_eq!(values(&sum), [6.0; 4]);

    let whole = Tensor::zeros([12], FLOAT);
    let gather = group.start(Collective::AllGather, &whole, Some(&own()));
    gather.unwrap().wait().unwrap();
    let expected = [[1.0_f32; 4], [2.0; 4], [3.0; 4]].concat();
    assert_eq!(values(&whole), expected);

    let part = Tensor::zeros([4], FLOAT);
    let numbers = Tensor::arange(12, FLOAT);
    group
        .run(Collective::ReduceScatter, &part, Some(&numbers))
        .unwrap();
    let first = 12.0 * rank as f32;
    assert_eq!(values(&part), [0.0, 3.0, 6.0, 9.0].map(|more| first + more));

    let theirs = own();
    group.run(Collective::Broadcast(2), &theirs, None).unwrap();
    assert_eq!(values(&theirs), [3.0; 4]);
    let sent = own();
    match rank {
        0 => group.run(Collective::Send(1), &sent, None).unwrap(),
        1 => group.run(Collective::Receive(0), &sent, None).unwrap(),
        _ => {}
    }
    assert_eq!(values(&sent), [[1.0, 1.0, 3.0][rank as usize]; 4]);
    let all = [own(), own() + 1];
    group.broadcast(&all).unwrap();
    assert_eq!(values(&all[1]), [2.0; 4]);
}

#[test]
fn gradients_are_means_over_ranks() {
    let test = "gradients_are_means_over_ranks";
    let (group, rank) = match ranks(test, Duration::from_mins(1)) {
        Ok(rank) => rank,
        Err(children) => return all_well(children),
    };
    let weight = Tensor::ones([3], FLOAT).set_requires_grad(true);
    let bias = Tensor::ones([1], FLOAT).set_requires_grad(true);
    let mut reducer = Reducer::new(group, &[&weight, &bias]).unwrap();
    let mut step = |exchanges: bool| {
        reducer.before_forward(exchanges).unwrap();
        let loss = (&weight * i64::from(rank)).sum(Kind::Float) + bias.sum(Kind::Float);
        if exchanges {
            reducer.before_backward().unwrap();
        }
        autograd::backward(&loss).unwrap();
        Vec::<f32>::try_from(&weight.grad()).unwrap()
    };
    assert_eq!(step(true), [1.0; 3]);
    // Buckets are built anew before this one.
    autograd::zero_grad(&[&weight, &bias]).unwrap();
    assert_eq!(step(true), [1.0; 3]);
    // What is not exchanged is added, and exchanged with what comes next.
    autograd::zero_grad(&[&weight, &bias]).unwrap();
    assert_eq!(step(false), [rank as f32; 3]);
    assert_eq!(step(true), [2.0; 3]);
}

#[test]
fn ranks_that_disagree_about_the_model_are_refused() {
    let test = "ranks_that_disagree_about_the_model_are_refused";
    let (group, rank) = match ranks(test, Duration::from_mins(1)) {
        Ok(rank) => rank,
        Err(children) => return all_well(children),
    };
    let layers = if rank == 2 { 1 } else { 2 };
    let weights = [(); 2].map(|()| Tensor::ones([3], FLOAT).set_requires_grad(true));
    let own: Vec<&Tensor> = weights.iter().take(layers).collect();
    let error = Reducer::new(group, &own).unwrap_err();
    assert!(
        error.to_string().contains("same model across all ranks"),
        "{error}"
    );
}

#[test]
fn a_rank_that_dies_or_hangs_fails_the_others() {
    let test = "a_rank_that_dies_or_hangs_fails_the_others";
    let (group, rank) = match ranks(test, Duration::from_secs(4)) {
        Ok(rank) => rank,
        Err(children) => return all_well(children),
    };
    let word = Tensor::zeros([1], FLOAT);
    group.run(Collective::AllReduce, &word, None).unwrap();
    if rank == 2 {
        std::thread::sleep(Duration::from_secs(7));
        return;
    }
    let began = Instant::now();
    let error = group.run(Collective::AllReduce, &word, None).unwrap_err();
    assert!(matches!(error, Error::Exchange { .. }), "{error}");
    assert!(error.to_string().contains("NCCL_DEBUG"), "{error}");
    assert!(
        began.elapsed() < Duration::from_secs(7),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn ranks_that_do_not_come_are_missed() {
    let at = Rendezvous {
        host: "127.0.0.1".into(),
        port: 0,
        rank: 0,
        world: 2,
        timeout: Duration::from_millis(500),
    };
    let error = ProcessGroup::join(&at, None).unwrap_err();
    assert!(matches!(error, Error::Exchange { .. }), "{error}");
}

#[test]
fn gpus_need_a_build_with_cuda() {
    let at = Rendezvous {
        host: "127.0.0.1".into(),
        port: 0,
        rank: 0,
        world: 1,
        timeout: Duration::from_secs(10),
    };
    if !libtorch::cuda::built() {
        let error = ProcessGroup::join(&at, Some(0)).unwrap_err();
        assert_eq!(error, Error::NotBuiltWithCuda);
    }
}

#[test]
fn a_gradient_is_told_before_backward_goes_on() {
    let (told, heard) = std::sync::mpsc::channel();
    let x = Tensor::ones([2], FLOAT).set_requires_grad(true);
    let y = &x * 3;
    let seen = std::sync::Mutex::new(x.shallow_clone());
    on_gradient(&y, move || {
        let seen = seen.lock().unwrap();
        told.send(autograd::gradient(&seen)?.is_some()).unwrap();
        Ok(())
    })
    .unwrap();
    autograd::backward(&(&y * 2).sum(Kind::Float)).unwrap();
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [false]);
    assert!(autograd::gradient(&x).unwrap().is_some());

    let y = &x * 3;
    let message = "the body says no".to_owned();
    let error = Error::Libtorch { message };
    let told = error.clone();
    on_gradient(&y, move || Err(told.clone())).unwrap();
    let got = autograd::backward(&y.sum(Kind::Float)).unwrap_err();
    assert_eq!(got, error);
}

#[test]
fn views_outlive_the_memory_of_their_tensor() {
    let whole = Tensor::arange(6, FLOAT);
    let part = whole.narrow(0, 2, 2).view([1, 2]);
    resize_storage(&whole, 0).unwrap();
    resize_storage(&whole, 24).unwrap();
    let mut filled = whole.shallow_clone();
    let _ = filled.fill_(7.0);
    assert_eq!(Vec::<f32>::try_from(&part.view([2])).unwrap(), [7.0; 2]);
}

/// The end of a C++ program on which nobody counted, as NCCL's threads have it.
#[test]
#[expect(unsafe_code, reason = "what C++ does is called as C++ calls it")]
fn last_words_are_told() {
    unsafe extern "C" {
        #[link_name = "_ZSt9terminatev"]
        fn terminate() -> !;
    }
    if env::var_os(RANK).is_some() {
        on_terminate(|error| {
            let _ = writeln!(std::io::stderr(), "told: {error}");
        });
        // SAFETY: it ends the process.
        unsafe { terminate() }
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["last_words_are_told", "--exact", "--nocapture"])
        .env(RANK, "")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(
        words.contains("told: libtorch: std::terminate was called"),
        "{words}"
    );
}
