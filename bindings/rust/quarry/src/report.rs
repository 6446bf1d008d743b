// SPDX-License-Identifier: Apache-2.0
//! Reports as structs (feature `serde`).
use crate::error::{Error, Result};
use crate::model::{Call, Model};
use crate::runtime::Options;
use crate::session::Session;
use serde::{Deserialize, Serialize};

/// What a backend says of every node of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Which one was asked.
    pub backend: String,
    /// How many nodes it takes.
    pub supported: u64,
    /// How many it does not.
    pub refused: u64,
    /// Each, in the graph's order.
    pub nodes: Vec<CheckedNode>,
}

/// A node of a [`CheckReport`]: `path` and `kernel` where the backend takes it, `reason`, `id` and `hint` where it does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[allow(missing_docs)]
pub struct CheckedNode {
    pub graph: String,
    pub name: String,
    pub op: String,
    pub supported: bool,
    pub path: String,
    pub kernel: String,
    pub reason: String,
    pub id: String,
    pub hint: String,
}

/// What a session is, the part that programs ask for; all of it is in [`Session::report`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[allow(missing_docs)]
pub struct SessionReport {
    pub model: String,
    pub backend: String,
    pub backend_version: String,
    pub device_name: String,
    pub target: String,
    pub source: String,
    pub grade: String,
    pub threads: u64,
    pub options: serde_json::Map<String, serde_json::Value>,
}

fn read<T: for<'de> Deserialize<'de>>(json: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| Error::refused(format!("the library's report: {error}"), "build crate and library of one release"))
}

impl Model<'_> {
    /// [`Model::check`] as a struct.
    pub fn check_report(&self, options: Option<&Options>, call: Call<'_>) -> Result<CheckReport> {
        read(&self.check(options, call)?)
    }
}

impl Session<'_> {
    /// [`Session::report`] as a struct.
    pub fn session_report(&mut self) -> Result<SessionReport> {
        read(&self.report()?)
    }
}
