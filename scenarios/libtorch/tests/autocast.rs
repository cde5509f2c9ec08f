//! Autocast: the type, the scope, the cache.

use libtorch::{
    Error,
    autocast::{DeviceType, Dtype, Scope, state, with},
    autograd, catch,
};
use tch::{Device, Kind, Tensor};

const CPU: (Kind, Device) = (Kind::Float, Device::Cpu);

fn product() -> Kind {
    Tensor::ones([4, 4], CPU)
        .matmul(&Tensor::ones([4, 4], CPU))
        .kind()
}

fn dtype(device: DeviceType) -> Option<Dtype> {
    state(device).unwrap().dtype
}

#[test]
fn products_run_in_the_chosen_type_within_the_scope_only() {
    assert_eq!(product(), Kind::Float);
    for (chosen, kind) in [(Dtype::BFloat16, Kind::BFloat16), (Dtype::Half, Kind::Half)] {
        let within = with(DeviceType::Cpu, Some(chosen), true, || {
            assert_eq!(dtype(DeviceType::Cpu), Some(chosen));
            // Only the CPU's operations were asked for.
            assert_eq!(dtype(DeviceType::Cuda), None);
            product()
        });
        assert_eq!(within, Ok(kind));
        assert_eq!(product(), Kind::Float);
        assert_eq!(dtype(DeviceType::Cpu), None);
    }
}

#[test]
fn scopes_nest_and_switch_off() {
    let outer = Scope::enter(DeviceType::Cpu, Some(Dtype::BFloat16), true).unwrap();
    {
        let _off = Scope::enter(DeviceType::Cpu, None, true).unwrap();
        assert_eq!(product(), Kind::Float);
        let _half = Scope::enter(DeviceType::Cpu, Some(Dtype::Half), false).unwrap();
        assert_eq!(product(), Kind::Half);
        assert!(!state(DeviceType::Cpu).unwrap().cache_enabled);
    }
    assert_eq!(product(), Kind::BFloat16);
    assert!(state(DeviceType::Cpu).unwrap().cache_enabled);
    drop(outer);
    assert_eq!(product(), Kind::Float);
}

#[test]
fn a_panic_leaves_the_scope_too() {
    let result = catch(|| {
        with(DeviceType::Cpu, Some(Dtype::BFloat16), true, || {
            panic!("within")
        })
        .unwrap()
    });
    assert_eq!(
        result,
        Err(Error::Panic {
            message: "within".to_owned()
        })
    );
    assert_eq!(dtype(DeviceType::Cpu), None);
}

#[test]
fn another_thread_is_not_touched() {
    let _scope = Scope::enter(DeviceType::Cpu, Some(Dtype::BFloat16), true).unwrap();
    let other = std::thread::spawn(|| dtype(DeviceType::Cpu))
        .join()
        .unwrap();
    assert_eq!(other, None);
}

/// A changed weight must not meet its old shortened copy in the next step's scope.
#[test]
fn the_cache_ends_with_the_outermost_scope() {
    let mut weight = Tensor::ones([4, 4], CPU).set_requires_grad(true);
    let input = Tensor::ones([1, 4], CPU);
    let forward = |weight: &Tensor| {
        let sum = with(DeviceType::Cpu, Some(Dtype::BFloat16), true, || {
            let inner = with(DeviceType::Cpu, Some(Dtype::BFloat16), true, || {
                input.matmul(weight)
            })
            .unwrap();
            inner + input.matmul(weight)
        });
        sum.unwrap().to_kind(Kind::Float).sum(Kind::Float)
    };
    let first = forward(&weight);
    assert_eq!(first.double_value(&[]).to_bits(), 32.0_f64.to_bits());
    autograd::backward(&first).unwrap();
    let gradient = autograd::gradient(&weight).unwrap().expect("a gradient");
    assert_eq!(gradient.kind(), Kind::Float);
    assert!(gradient.equal(&Tensor::full([4, 4], 2.0, CPU)));

    tch::no_grad(|| {
        let _ = weight.fill_(2.0);
    });
    assert_eq!(
        forward(&weight).double_value(&[]).to_bits(),
        64.0_f64.to_bits()
    );
}
