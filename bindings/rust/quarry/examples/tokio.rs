// SPDX-License-Identifier: Apache-2.0
//! Runs under tokio: tokio [FOLDER of models/digits]
//!
//! A queued run owns its tensors and is a future, so what it gives is the task's: it may be held across other awaits.
use quarry::{DType, Model, Options, OwnedTensor, Runtime, Session};
use std::time::Duration;

fn best(scores: &[f32]) -> usize {
    (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or(0)
}

async fn digit(session: &Session<'_>, pixels: &[u8]) -> quarry::Result<usize> {
    let image: Vec<f32> = pixels.iter().map(|pixel| f32::from(*pixel) / 255.0).collect();
    let run = session.submit(vec![OwnedTensor::new(&[1, 1, 8, 8], &image)?], vec![OwnedTensor::zeros(DType::F32, &[1, 10])?], None)?;
    let (_, outputs) = run.await?;
    tokio::time::sleep(Duration::from_millis(1)).await; // the outputs stay
    Ok(best(outputs[0].data()?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "models/digits".into());
    let runtime = Runtime::new()?;
    let model = Model::open(&runtime, format!("{folder}/digits.onnx"), None)?;
    let session = Session::new(&model, Some(&Options::new(&runtime)?.with("queue_depth", "4")?))?;
    let file = tokio::task::spawn_blocking(move || std::fs::read(format!("{folder}/test_images.npy"))).await??;
    // Two at once on one session; 128 bytes are in front of the first image.
    let (first, second) = tokio::join!(digit(&session, &file[128..192]), digit(&session, &file[192..256]));
    println!("the first digits are {} and {}", first?, second?);
    Ok(())
}
