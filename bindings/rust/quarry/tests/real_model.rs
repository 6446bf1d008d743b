// SPDX-License-Identifier: Apache-2.0
//! A real model of $QUARRY_SHARED (default ../shared) with its stored inputs and outputs; says so where it is not there.
use quarry::*;
use std::path::PathBuf;

/// The raw data and the dimensions of a TensorProto of f32 whose data are raw: field 1 has the dimensions, 9 the bytes.
fn tensor_proto(path: PathBuf) -> (Vec<usize>, Vec<f32>) {
    let file = std::fs::read(path).unwrap();
    let (mut at, mut dims, mut values) = (0, Vec::new(), Vec::new());
    let varint = |at: &mut usize| {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = file[*at];
            *at += 1;
            value |= u64::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return value as usize;
            }
        }
    };
    while at < file.len() {
        let key = varint(&mut at);
        if key & 7 == 0 {
            let value = varint(&mut at);
            if key >> 3 == 1 {
                dims.push(value);
            }
            continue;
        }
        let size = varint(&mut at);
        let end = at + size;
        match key >> 3 {
            1 => {
                while at < end {
                    dims.push(varint(&mut at));
                }
            }
            9 | 4 => values = file[at..end].chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
            _ => {}
        }
        at = end;
    }
    (dims, values)
}

#[test]
fn squeezenet_gives_what_is_stored() {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let shared = std::env::var_os("QUARRY_SHARED").map_or_else(|| here.join("../../../../shared"), PathBuf::from);
    let folder = shared.join("models/squeezenet1.1_f32");
    if !folder.is_dir() {
        println!("skipped: there is no {}: set QUARRY_SHARED", folder.display());
        return;
    }
    let runtime = Runtime::new().unwrap();
    let (dims, image) = tensor_proto(folder.join("test_data_set_0/input_0.pb"));
    let (wanted_dims, wanted) = tensor_proto(folder.join("test_data_set_0/output_0.pb"));
    let model = Model::open(&runtime, folder.join("model.onnx"), None).unwrap();
    let extents: Vec<String> = dims.iter().map(usize::to_string).collect();
    let shape = format!("{}={}", model.inputs().unwrap()[0].name, extents.join("x"));
    let options = Options::new(&runtime).unwrap().with("shape", &shape).unwrap();
    let mut session = Session::new(&model, Some(&options)).unwrap();
    let outputs = session.run(&[TensorRef::new(&dims, &image).unwrap()]).unwrap();
    assert_eq!(outputs.shape(0), wanted_dims);
    let (found, range) = (outputs.data::<f32>(0).unwrap(), wanted.iter().fold(0.0f32, |m, v| m.max(v.abs())));
    assert!(found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() <= 1e-3 * b.abs() + 1e-5 * range));
}
