// SPDX-License-Identifier: Apache-2.0
//! Quantised models of the digits model of the checkout (feature `quantize`).
#![cfg(feature = "quantize")]
use quarry::*;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

fn digits() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../models/digits")
}

/// The data of a .npy file that train.py wrote.
fn npy(name: &str) -> Vec<u8> {
    let file = std::fs::read(digits().join(name)).unwrap();
    file[10 + usize::from(u16::from_le_bytes([file[8], file[9]]))..].to_vec()
}

fn images() -> Vec<Vec<f32>> {
    npy("test_images.npy").chunks(64).map(|image| image.iter().map(|pixel| f32::from(*pixel) / 255.0).collect()).collect()
}

fn open() -> Quantizer<'static> {
    // The runtime is dropped here: the quantizer holds what it needs.
    Quantizer::open(&Runtime::new().unwrap(), digits().join("digits.onnx")).unwrap()
}

fn tensor(image: &[f32]) -> TensorRef<'_> {
    TensorRef::new(&[1, 1, 8, 8], image).unwrap()
}

fn add(quantizer: &mut Quantizer<'_>, images: &[Vec<f32>]) {
    for image in images {
        quantizer.add_sample(&[tensor(image)]).unwrap();
    }
}

fn written(quantizer: &mut Quantizer<'_>) -> Result<Vec<u8>> {
    let mut model = Vec::new();
    quantizer.write(Target::memory(&mut model), Call::new())?;
    Ok(model)
}

#[test]
fn a_quantised_model_recognises_the_digits() {
    let (images, labels) = (images(), npy("test_labels.npy"));
    let mut quantizer = open().with("activations", "u8").unwrap();
    let inputs = quantizer.inputs().unwrap();
    assert_eq!((inputs.len(), inputs[0].dtype, &inputs[0].shape), (1, DType::F32, &vec![Some(1), Some(1), Some(8), Some(8)]));
    let error = quantizer.report("json").unwrap_err();
    assert_eq!((error.code(), error.hint()), (Code::FailedPrecondition, "call Quantizer::write"));
    add(&mut quantizer, &images[..32]);
    let (mut model, mut told) = (Vec::new(), 0);
    quantizer
        .write(
            Target::memory(&mut model),
            Call::new().progress(&mut |_, _, _| {
                told += 1;
                ControlFlow::Continue(())
            }),
        )
        .unwrap();
    assert!(told > 0 && model.windows(14).any(|part| part == b"QuantizeLinear"));
    let runtime = Runtime::new().unwrap();
    let mut session = Session::new(&Model::from_memory(&runtime, &model, None).unwrap(), None).unwrap();
    let mut right = 0;
    for (image, label) in images.iter().zip(&labels) {
        let outputs = session.run(&[tensor(image)]).unwrap();
        let scores: &[f32] = outputs.data(0).unwrap();
        right += usize::from((0..10).max_by(|a, b| scores[*a].total_cmp(&scores[*b])) == Some(usize::from(*label)));
    }
    assert!(right * 100 >= labels.len() * 95, "{right} of {}", labels.len());
    let report = quantizer.report("json").unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&report).unwrap().is_object());
    assert!(quantizer.report("html").unwrap().contains("<html"));
    let mut taken = Vec::new();
    quantizer.report_to("json", Target::writer(&mut taken), Call::new()).unwrap();
    assert_eq!(taken, report.as_bytes());
}

#[test]
fn a_calibration_is_taken_up() {
    let (images, model) = (images(), std::fs::read(digits().join("digits.onnx")).unwrap());
    let runtime = Runtime::new().unwrap();
    let mut whole = Quantizer::open_with(&runtime, Source::memory(&model), Call::new()).unwrap();
    let (mut first, mut second, mut saved) = (open(), open(), Vec::new());
    add(&mut whole, &images[..8]);
    add(&mut first, &images[..5]);
    first.save(Target::memory(&mut saved), "five of them", Call::new()).unwrap();
    let mut file = std::io::Cursor::new(&saved);
    assert_eq!(second.restore(Source::reader(&mut file).unwrap(), Call::new()).unwrap(), "five of them");
    assert_eq!(second.samples().unwrap(), 5);
    add(&mut second, &images[5..8]);
    assert_eq!(written(&mut second).unwrap(), written(&mut whole).unwrap());
    assert!(open().restore(Source::memory(&model), Call::new()).is_err());
}

#[test]
fn a_black_sample_is_refused() {
    let mut quantizer = open();
    assert_eq!(written(&mut quantizer).unwrap_err().code(), Code::InvalidArgument);
    let black = vec![0.0; 64];
    add(&mut quantizer, std::slice::from_ref(&black));
    let error = written(&mut quantizer).unwrap_err();
    assert!(error.code() == Code::InvalidArgument && error.message().contains("one and the same number all over"), "{error}");
    let integers = vec![0i32; 64];
    for wrong in [vec![], vec![TensorRef::new(&[64], &black).unwrap()], vec![TensorRef::new(&[1, 1, 8, 8], &integers).unwrap()]] {
        assert_eq!(quantizer.add_sample(&wrong).unwrap_err().code(), Code::InvalidArgument);
    }
    assert_eq!(quantizer.samples().unwrap(), 1);
}

#[test]
fn what_ends_a_call() {
    let (images, runtime) = (images(), Runtime::new().unwrap());
    let signal = Signal::new(&runtime).unwrap();
    let mut quantizer = open();
    add(&mut quantizer, &images[..4]);
    signal.abort();
    let opened = Quantizer::open_with(&runtime, Source::path(&digits().join("digits.onnx")), Call::new().signal(&signal));
    assert_eq!(opened.unwrap_err().code(), Code::Cancelled);
    assert_eq!(quantizer.add_sample_with(&[tensor(&images[4])], Call::new().signal(&signal)).unwrap_err().code(), Code::Cancelled);
    signal.reset();
    signal.set_timeout(Some(Duration::ZERO));
    let mut model = Vec::new();
    assert_eq!(quantizer.write(Target::memory(&mut model), Call::new().signal(&signal)).unwrap_err().code(), Code::DeadlineExceeded);
    signal.set_timeout(None);
    // While the library is at work: by the signal, by what the progress function answers, and by its panic.
    let during = quantizer.write(
        Target::memory(&mut model),
        Call::new().signal(&signal).progress(&mut |_, _, _| {
            signal.abort();
            ControlFlow::Continue(())
        }),
    );
    assert_eq!(during.unwrap_err().code(), Code::Cancelled);
    let stopped = quantizer.write(Target::memory(&mut model), Call::new().progress(&mut |_, _, _| ControlFlow::Break(())));
    assert_eq!(stopped.unwrap_err().code(), Code::Cancelled);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        quantizer.write(Target::memory(&mut Vec::new()), Call::new().progress(&mut |_, _, _| panic!("of the program")))
    }));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "of the program");
    assert!(model.is_empty() && quantizer.samples().unwrap() == 4 && !written(&mut quantizer).unwrap().is_empty());
}

#[test]
fn options_and_errors() {
    let options = Quantizer::options().unwrap();
    assert!(options.iter().any(|option| option.key == "activations") && options.iter().all(|option| !option.values.is_empty() && !option.help.is_empty()));
    let error = open().set("activation", "u16").unwrap_err();
    assert!(error.code() == Code::NotFound && error.hint().contains("Quantizer::options"), "{error}");
    assert_eq!(open().with("activations", "u17").unwrap_err().code(), Code::InvalidArgument);
    let none = Quantizer::open(&Runtime::new().unwrap(), "none.onnx").unwrap_err();
    assert_eq!(none.code(), Code::NotFound);
}
