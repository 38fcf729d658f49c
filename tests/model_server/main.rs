//! The model API server of `tests/simulation` is held to the real one: the same conversations with both, and their answers compared.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod claims;
mod conversations;
#[path = "../simulation/model/mod.rs"]
#[allow(dead_code, reason = "the worlds use the rest")]
mod model;
mod talk;

use berth_lab::{ControlPlane, Options};
use conversations::Hold;
use std::fmt::Write;
use talk::{Model, Real, Server, Talk};

/// At least so many.
const FEWEST: usize = 135;

fn told(server: &mut dyn Server, index: usize, hold: Hold) -> Vec<String> {
    let mut talk = Talk::new(server, &format!("talk-{index}"));
    hold(&mut talk);
    talk.told()
}

#[test]
fn the_model_answers_as_the_real_api_server_does() {
    let all = [conversations::ALL, claims::ALL].concat();
    assert!(all.len() >= FEWEST, "{} conversations", all.len());
    let plane = ControlPlane::start(&Options::default()).unwrap();
    let crd = berth_api::crd_json().unwrap();
    plane.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).unwrap();
    let mut real = Real::new(&plane);
    real.wait_for("/apis/scheduling.berth.dev/v1alpha1/schedulerprofiles");
    let mut model = Model::new();
    let mut differences = String::new();
    for (index, (name, hold)) in all.into_iter().enumerate() {
        let (of_real, of_model) = (told(&mut real, index, hold), told(&mut model, index, hold));
        if of_real != of_model {
            let _ = writeln!(differences, "{name}:");
            for step in 0..of_real.len().max(of_model.len()) {
                let at = |all: &[String]| all.get(step).cloned().unwrap_or_default();
                let (real, model) = (at(&of_real), at(&of_model));
                if real != model {
                    let _ = writeln!(differences, "  real:  {real}\n  model: {model}");
                }
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
