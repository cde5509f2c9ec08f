//! Images end to end: assembled from small parts, and loaded into the real engine.

mod assembling;
mod bases;
mod committed;
mod damage;
mod documented;
mod engine_runs;
mod linking;
mod locks;
mod own_bases;
mod registry;
mod specs;
mod world;
