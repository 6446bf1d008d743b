// SPDX-License-Identifier: Apache-2.0
//! Reads a handwritten digit: cargo run --example digits models/digits
use quarry::{Model, Runtime, Session, TensorRef};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "models/digits".into());
    let runtime = Runtime::new()?;
    let model = Model::open(&runtime, format!("{folder}/digits.onnx"), None)?;
    let mut session = Session::new(&model, None)?;
    // A .npy file has its data behind a header whose length is in bytes 8 and 9.
    let file = std::fs::read(format!("{folder}/test_images.npy"))?;
    let pixels = &file[10 + usize::from(u16::from_le_bytes([file[8], file[9]]))..];
    let image: Vec<f32> = pixels[..64].iter().map(|pixel| f32::from(*pixel) / 255.0).collect();
    let outputs = session.run(&[TensorRef::new(&[1, 1, 8, 8], &image)?])?;
    let scores: &[f32] = outputs.data(0)?;
    let answer = (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    println!("the first digit is a {}", answer.ok_or("no scores")?);
    Ok(())
}
