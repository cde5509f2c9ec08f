//! The judge from outside: its bars in small, its properties, its worked examples.

mod bars;
mod compare_properties;
mod noise;
#[expect(dead_code, reason = "the benchmark takes more of it")]
#[path = "../../benches/bars/pools.rs"]
mod pools;
mod real_series;
mod trend_cases;
mod worked_examples;
