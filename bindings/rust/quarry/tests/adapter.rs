// SPDX-License-Identifier: Apache-2.0
//! An adapter of rank 1 for y = x [[1, 2], [3, 4]]: y += (x0 + x1) [1, -1].
use quarry::*;

fn session(options: &[(&str, &str)]) -> Result<Session<'static>> {
    let runtime = Runtime::new()?;
    let mut given = Options::new(&runtime)?.with("threads", "1")?;
    for (key, value) in options {
        given = given.with(key, value)?;
    }
    Session::new(&Model::open(&runtime, file("onnx"), None)?, Some(&given))
}

fn file(ending: &str) -> std::path::PathBuf {
    std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../models/product.".to_owned() + ending)
}

fn product(session: &mut Session<'_>) -> Vec<f32> {
    session.run(&[TensorRef::new(&[1, 2], &[1.0f32, 10.0]).unwrap()]).unwrap().data(0).unwrap().to_vec()
}

#[test]
fn adapters_take_turns() {
    let mut first = session(&[("adapter.targets", "q")]).unwrap();
    let path = file("safetensors");
    let whole = first.open_adapter(Source::path(&path), Some(1.0), 1.0, Call::new()).unwrap();
    let half = first.open_adapter(Source::path(&path), Some(1.0), 0.5, Call::new()).unwrap();
    assert_eq!(product(&mut first), [31.0, 42.0]);
    first.set_adapter(Some(&whole)).unwrap();
    assert_eq!(product(&mut first), [42.0, 31.0]);
    let mut clone = first.try_clone().unwrap();
    first.set_adapter(Some(&half)).unwrap();
    drop((whole, half));
    assert_eq!((product(&mut first), product(&mut clone)), (vec![36.5, 36.5], vec![42.0, 31.0]));
    first.set_adapter(None).unwrap();
    assert_eq!(product(&mut first), [31.0, 42.0]);
}

#[test]
fn what_does_not_fit_says_so() {
    let made = session(&[("adapter.targets", "q")]).unwrap();
    let path = file("safetensors");
    let unscaled = made.open_adapter(Source::path(&path), None, 1.0, Call::new()).unwrap_err();
    assert_eq!(unscaled.id(), "QR-A0004");
    let without = session(&[]).unwrap().open_adapter(Source::path(&path), Some(1.0), 1.0, Call::new()).unwrap_err();
    assert_eq!((without.id(), without.code()), ("QR-A0005", Code::FailedPrecondition));
}
