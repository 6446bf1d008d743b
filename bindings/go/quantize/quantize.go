// SPDX-License-Identifier: Apache-2.0

// Package quantize makes quantised models of float ones and samples of their inputs (docs/quantize.md).
//
//	quantizer, err := quantize.Open(ctx, runtime, quarry.Source{Path: "model.onnx"}, quarry.Options{"activations": "u16"})
//	err = quantizer.AddSample(ctx, quarry.TensorOf(image, 1, 3, 224, 224))
//	err = quantizer.Write(ctx, quarry.Target{Path: "model.qdq.onnx"})
//
// It needs libquarry-quantize beside libquarry, which programs that do not import it need not have.
package quantize

// #cgo pkg-config: quarry-quantize
// #include <quarry/quantize.h>
import "C"

import (
	"context"
	"runtime"
	"sync"
	"unsafe"

	"quarry.dev/quarry"
	"quarry.dev/quarry/internal/inside"
)

// Option is one that Open takes.
type Option struct {
	Key, Default, Help string
	Values             string // "a|b|c", "integer LOW..HIGH", "number LOW..HIGH", "text", "path" or "list"
}

// Options are all of them.
func Options() ([]Option, error) {
	found := make([]Option, 0, int(C.qr_quantize_option_count()))
	for i := C.uint64_t(0); i < C.qr_quantize_option_count(); i++ {
		row := C.qr_quantize_option{struct_size: C.sizeof_qr_quantize_option}
		if err := check(C.qr_quantize_option_at(i, &row)); err != nil {
			return nil, err
		}
		found = append(found, Option{Key: goString(row.key), Default: goString(row.default_value), Help: goString(row.help), Values: goString(row.values)})
	}
	return found, nil
}

// Quantizer is a float model that samples are shown to. Calls of several goroutines take turns.
type Quantizer struct {
	mutex   sync.Mutex
	owned   owned // its pointer is nil once closed
	cleanup runtime.Cleanup
	inputs  []quarry.TensorInfo // once they were asked for
}

// owned is what it takes to free one.
type owned struct {
	pointer *C.qr_quantizer
	core    inside.Core
}

func (o owned) destroy() {
	C.qr_quantizer_destroy(o.pointer)
	o.core.Release()
}

// Open opens a float model. An error of the source's reader is found in the call's by errors.Is and errors.As.
func Open(ctx context.Context, r *quarry.Runtime, source quarry.Source, options quarry.Options) (*Quantizer, error) {
	core, err := inside.Retain(r)
	if err != nil {
		return nil, err
	}
	var pointer *C.qr_quantizer
	err = inside.WithSource(source, func(from unsafe.Pointer) error {
		return core.Called(ctx, func(call unsafe.Pointer) unsafe.Pointer {
			return unsafe.Pointer(C.qr_quantizer_open((*C.qr_runtime)(core.Runtime()), (*C.qr_model_source)(from), (*C.qr_call_options)(call), &pointer))
		})
	})
	for key, value := range options {
		if err == nil {
			err = withText(key, func(key C.qr_string) error {
				return withText(value, func(value C.qr_string) error { return check(C.qr_quantizer_set(pointer, key, value)) })
			})
		}
	}
	made := &Quantizer{owned: owned{pointer, core}}
	if err != nil {
		made.owned.destroy()
		return nil, err
	}
	made.cleanup = runtime.AddCleanup(made, owned.destroy, made.owned)
	return made, nil
}

// Close frees the quantizer, after a call that is under way. It may be called again.
func (q *Quantizer) Close() {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.owned.pointer != nil {
		q.cleanup.Stop()
		q.owned.destroy()
		q.owned.pointer = nil
	}
}

// Inputs says what a sample has, with all dimensions known. The first time prepares the model.
func (q *Quantizer) Inputs(ctx context.Context) ([]quarry.TensorInfo, error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.infos(ctx)
}

func (q *Quantizer) infos(ctx context.Context) ([]quarry.TensorInfo, error) {
	if q.inputs != nil && q.owned.pointer != nil {
		return q.inputs, nil
	}
	var count C.uint64_t
	err := q.called(ctx, func(call *C.qr_call_options) *C.qr_status {
		return C.qr_quantizer_input_count(q.owned.pointer, call, &count)
	})
	if err != nil {
		return nil, err
	}
	found, err := inside.Infos(uint64(count), func(i uint64, info unsafe.Pointer) unsafe.Pointer {
		return unsafe.Pointer(C.qr_quantizer_input(q.owned.pointer, C.uint64_t(i), (*C.qr_tensor_info)(info)))
	})
	if err != nil {
		return nil, err
	}
	q.inputs = found.([]quarry.TensorInfo)
	return q.inputs, nil
}

// AddSample runs the float model on one sample, its inputs in the order of Inputs, and takes note of what each tensor holds. One that fails leaves
// everything as it was.
func (q *Quantizer) AddSample(ctx context.Context, inputs ...quarry.Tensor) error {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	infos, err := q.infos(ctx)
	if err != nil {
		return err
	}
	return inside.WithInputs(infos, inputs, func(places unsafe.Pointer) error {
		return q.called(ctx, func(call *C.qr_call_options) *C.qr_status {
			return C.qr_quantizer_add_sample(q.owned.pointer, (**C.qr_tensor)(places), C.uint64_t(len(inputs)), call)
		})
	})
}

// Samples is how many the model was shown, those of a calibration that was taken up included.
func (q *Quantizer) Samples() (int, error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	var count C.uint64_t
	err := check(C.qr_quantizer_sample_count(q.owned.pointer, &count))
	return int(count), err
}

// Save writes all that is known of the samples so far, from which another process can go on; the note is given back by Restore.
func (q *Quantizer) Save(ctx context.Context, target quarry.Target, note string) error {
	return withText(note, func(note C.qr_string) error {
		return q.write(ctx, target, func(to *C.qr_target, call *C.qr_call_options) *C.qr_status {
			return C.qr_quantizer_save(q.owned.pointer, to, note, call)
		})
	})
}

// Restore takes up what Save wrote, before the first sample, and gives its note.
func (q *Quantizer) Restore(ctx context.Context, source quarry.Source) (string, error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	var note *C.char
	err := inside.WithSource(source, func(from unsafe.Pointer) error {
		return q.called(ctx, func(call *C.qr_call_options) *C.qr_status {
			return C.qr_quantizer_restore(q.owned.pointer, (*C.qr_model_source)(from), call, &note)
		})
	})
	defer C.qr_string_destroy(note)
	if err != nil {
		return "", err
	}
	return C.GoString(note), nil
}

// Write makes the quantised model of the samples so far and writes it. More samples may follow, and another Write. An error of the target's writer is
// found in the call's by errors.Is and errors.As.
func (q *Quantizer) Write(ctx context.Context, target quarry.Target) error {
	return q.write(ctx, target, func(to *C.qr_target, call *C.qr_call_options) *C.qr_status {
		return C.qr_quantizer_write(q.owned.pointer, to, call)
	})
}

// Report gives what the last Write found and did, as "json" or as "html": a page that needs nothing else.
func (q *Quantizer) Report(ctx context.Context, format string) (string, error) {
	var text []byte
	err := q.ReportTo(ctx, format, quarry.Target{Memory: &text})
	return string(text), err
}

// ReportTo writes the report anywhere.
func (q *Quantizer) ReportTo(ctx context.Context, format string, target quarry.Target) error {
	return withText(format, func(format C.qr_string) error {
		return q.write(ctx, target, func(to *C.qr_target, call *C.qr_call_options) *C.qr_status {
			return C.qr_quantizer_report(q.owned.pointer, format, to, call)
		})
	})
}

func (q *Quantizer) write(ctx context.Context, target quarry.Target, function func(*C.qr_target, *C.qr_call_options) *C.qr_status) error {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return inside.WithTarget(target, func(to unsafe.Pointer) error {
		return q.called(ctx, func(call *C.qr_call_options) *C.qr_status { return function((*C.qr_target)(to), call) })
	})
}

// called calls work with options of a call that a context's end stops. What a closed quantizer is, the library says: its runtime may be gone.
func (q *Quantizer) called(ctx context.Context, work func(*C.qr_call_options) *C.qr_status) error {
	if q.owned.pointer == nil {
		return check(work(nil))
	}
	return q.owned.core.Called(ctx, func(call unsafe.Pointer) unsafe.Pointer { return unsafe.Pointer(work((*C.qr_call_options)(call))) })
}

func check(status *C.qr_status) error { return inside.Check(unsafe.Pointer(status)) }

func goString(view C.qr_string) string {
	return C.GoStringN(view.data, C.int(view.size)) // a copy
}

// withText calls work with a text as C has it, where it lies.
func withText(text string, work func(C.qr_string) error) error {
	view := C.qr_string{size: C.uint64_t(len(text))}
	if len(text) > 0 {
		var pinner runtime.Pinner
		defer pinner.Unpin()
		data := unsafe.StringData(text)
		pinner.Pin(data)
		view.data = (*C.char)(unsafe.Pointer(data))
	}
	return work(view)
}
