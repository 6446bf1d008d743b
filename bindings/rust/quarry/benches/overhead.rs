// SPDX-License-Identifier: Apache-2.0
//! What a run costs in Rust beyond the same call of the C ABI: `cargo bench [-- LIMIT_NS]`.
//! The model is the smallest there is, so that nothing hides it.
use quarry::{Model, Options, Runtime, RunOptions, Session, TensorMut, TensorRef};
use std::time::Instant;

fn median_ns(mut call: impl FnMut()) -> f64 {
    const INNER: u32 = 1000;
    let mut times: Vec<f64> = (0..200)
        .map(|_| {
            let begin = Instant::now();
            (0..INNER).for_each(|_| call());
            begin.elapsed().as_nanos() as f64 / f64::from(INNER)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> quarry::Result<()> {
    let model = include_bytes!("../tests/relu.onnx");
    let runtime = Runtime::new()?;
    let options = Options::new(&runtime)?.with("threads", "1")?;
    let model = Model::from_memory(&runtime, model, None)?;
    let mut session = Session::new(&model, Some(&options))?;
    let (given, mut found) = ([1.0f32, -2.0, 3.0, -4.0], [0.0f32; 4]);
    session.run_into(&[TensorRef::new(&[1, 4], &given)?], &mut [TensorMut::new(&mut found)], RunOptions::default())?;
    assert_eq!(found, [1.0, 0.0, 3.0, 0.0]);

    let raw = raw::Raw::new();
    let mut best = f64::INFINITY;
    let (mut c, mut rust) = (0.0, 0.0);
    for _ in 0..5 {
        // another program may have had the processor
        c = median_ns(|| raw.run());
        rust = median_ns(|| {
            session.run_into(&[TensorRef::new(&[1, 4], &given).unwrap()], &mut [TensorMut::new(&mut found)], RunOptions::default()).unwrap();
        });
        best = best.min(rust - c);
    }
    println!("Session::run_into: {rust:.0} ns; the C call: {c:.0} ns; over the C ABI: {best:.0} ns");
    let limit = std::env::args().skip(1).find_map(|word| word.parse::<f64>().ok());
    if limit.is_some_and(|limit| best > limit) {
        eprintln!("FAILED: {best:.0} ns over the C ABI, expected at most {} ns", limit.unwrap());
        std::process::exit(1);
    }
    Ok(())
}

/// The same session by quarry-sys, prepared once.
mod raw {
    use quarry_sys::*;
    use std::ptr::{null, null_mut};

    pub struct Raw {
        session: *mut qr_session,
        inputs: [*const qr_tensor; 1],
        outputs: [*mut qr_tensor; 1],
    }

    impl Raw {
        pub fn new() -> Self {
            let data = include_bytes!("../tests/relu.onnx");
            let tensor = |room: Vec<f32>| {
                let mut made = qr_tensor::INIT;
                (made.dtype, made.rank, made.dims[0], made.dims[1], made.size_bytes) = (QR_DTYPE_F32, 2, 1, 4, 16);
                made.data = room.leak().as_mut_ptr().cast();
                Box::leak(Box::new(made)) as *mut qr_tensor
            };
            let (mut runtime, mut options, mut model, mut session) = (null_mut(), null_mut(), null_mut(), null_mut());
            // SAFETY: a whole program of C's, whose objects live until its end.
            unsafe {
                assert!(qr_runtime_create(null(), &mut runtime).is_null());
                assert!(qr_options_create(runtime, &mut options).is_null());
                assert!(qr_options_set(options, qr_string::new("threads"), qr_string::new("1")).is_null());
                let source = qr_model_source { kind: QR_SOURCE_MEMORY, data: data.as_ptr().cast(), size_bytes: data.len() as u64, ..qr_model_source::INIT };
                assert!(qr_model_open(runtime, &source, null(), null(), &mut model).is_null());
                assert!(qr_session_create(model, options, null(), &mut session).is_null());
            }
            Self { session, inputs: [tensor(vec![1.0; 4])], outputs: [tensor(vec![0.0; 4])] }
        }
        pub fn run(&self) {
            // SAFETY: as above.
            let status = unsafe { qr_session_run(self.session, null(), self.inputs.as_ptr(), 1, self.outputs.as_ptr(), 1) };
            assert!(status.is_null());
        }
    }
}
