// SPDX-License-Identifier: Apache-2.0
//! Quarry, an embeddable runtime for neural networks: ONNX models, and containers compiled before, on slices where they lie.
//!
//! ```no_run
//! use quarry::{Model, Options, Runtime, Session, TensorRef};
//!
//! # fn main() -> quarry::Result<()> {
//! let runtime = Runtime::new()?;
//! let options = Options::new(&runtime)?.with("threads", "2")?;
//! let model = Model::open(&runtime, "model.onnx", None)?;
//! let mut session = Session::new(&model, Some(&options))?;
//! let image = vec![0.0f32; 3 * 224 * 224];
//! let outputs = session.run(&[TensorRef::new(&[1, 3, 224, 224], &image)?])?;
//! let scores: &[f32] = outputs.data(0)?; // until the next run
//! # let _ = scores; Ok(()) }
//! ```
//!
//! A child holds what it was made from in the library, so objects may be dropped in any order. What the headers call exclusive takes `&mut
//! self`; everything else takes `&self` and may be called from any thread.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

mod adapter;
mod error;
#[cfg(feature = "generate")]
mod generate;
mod memory;
mod model;
mod profile;
#[cfg(feature = "quantize")]
mod quantize;
mod queue;
#[cfg(feature = "serde")]
mod report;
mod runtime;
mod session;
mod state;
mod target;
mod tensor;

pub use adapter::Adapter;
pub use error::{Code, Error, Result};
#[cfg(feature = "generate")]
pub use generate::{End, Generator, GeneratorOptions, Sequence};
pub use memory::{Access, Memory, MemoryDevice};
pub use model::{Call, Compatibility, Model, Quantization, Source, TensorInfo};
pub use profile::{Counter, Event, Profile};
#[cfg(feature = "quantize")]
pub use quantize::Quantizer;
pub use queue::{OwnedTensor, Refused, Run, Waited};
#[cfg(feature = "serde")]
pub use report::{CheckReport, CheckedNode, SessionReport};
pub use runtime::{Backend, Device, LogLevel, LogLine, OptionInfo, Options, Runtime, RuntimeBuilder, Signal, abi_version, version};
pub use session::{Bucket, MemoryPlan, Outputs, RunOptions, Session};
pub use state::{State, StateTensor};
pub use target::{Files, Target};
pub use tensor::{BF16, DType, Element, F16, TensorMut, TensorRef};
