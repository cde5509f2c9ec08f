//! The judge from outside: its bars in small, its properties, its worked examples.

mod bars;
mod compare_properties;
mod noise;
mod trend_cases;
mod worked_examples;
