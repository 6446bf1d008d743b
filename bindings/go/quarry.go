// SPDX-License-Identifier: Apache-2.0

// Package quarry runs neural networks on slices where they lie: ONNX models, and containers that were compiled before.
//
//	session, err := quarry.Open("model.onnx", quarry.Options{"threads": "2"})
//	outputs, err := session.Run(ctx, quarry.TensorOf(image, 1, 3, 224, 224))
//	scores, err := quarry.Data[float32](outputs[0])
//
// It needs an installed Quarry, which pkg-config finds. Every object may be closed at any time and in any order: a child holds what it was
// made from. What is not closed is freed by the garbage collector.
package quarry

// #cgo pkg-config: quarry
// #include <quarry/quarry.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Code says what kind of failure it was; see types.h.
type Code int32

// The codes of types.h.
const (
	InvalidArgument    Code = C.QR_INVALID_ARGUMENT
	FailedPrecondition Code = C.QR_FAILED_PRECONDITION
	NotFound           Code = C.QR_NOT_FOUND
	OutOfRange         Code = C.QR_OUT_OF_RANGE
	Unsupported        Code = C.QR_UNSUPPORTED
	Incompatible       Code = C.QR_INCOMPATIBLE
	Corrupt            Code = C.QR_CORRUPT
	ResourceExhausted  Code = C.QR_RESOURCE_EXHAUSTED
	Unavailable        Code = C.QR_UNAVAILABLE
	DeadlineExceeded   Code = C.QR_DEADLINE_EXCEEDED
	Cancelled          Code = C.QR_CANCELLED
	PermissionDenied   Code = C.QR_PERMISSION_DENIED
	Internal           Code = C.QR_INTERNAL
	Busy               Code = C.QR_BUSY
	DeviceLost         Code = C.QR_DEVICE_LOST
)

func (code Code) String() string { return C.GoString(C.qr_code_name(C.qr_code(code))) }

// Detail is a key ("node", "op", "reason" ...) and its value.
type Detail struct{ Key, Value string }

// Error is why a call failed. errors.Is finds context.Canceled and context.DeadlineExceeded in it where a context ended the call.
type Error struct {
	Code    Code
	ID      string // "QR-C0107"; docs/errors.md has a section for each
	Message string // what was found, what was expected
	Hint    string // what to do about it; may be empty
	Details []Detail
	cause   error
}

func (e *Error) Error() string {
	text := e.ID + ": " + e.Message
	for _, detail := range e.Details {
		if detail.Key == "reason" {
			text += "; " + detail.Value
		}
	}
	if e.Hint != "" {
		text += " (hint: " + e.Hint + ")"
	}
	return text
}

func (e *Error) Unwrap() error { return e.cause }

func check(status *C.qr_status) error {
	if status == nil {
		return nil
	}
	defer C.qr_status_destroy(status)
	made := &Error{
		Code:    Code(C.qr_status_code(status)),
		ID:      C.GoString(C.qr_status_id(status)),
		Message: C.GoString(C.qr_status_message(status)),
		Hint:    C.GoString(C.qr_status_hint(status)),
	}
	for i := C.uint64_t(0); i < C.qr_status_detail_count(status); i++ {
		var key, value *C.char
		C.qr_status_detail(status, i, &key, &value)
		made.Details = append(made.Details, Detail{C.GoString(key), C.GoString(value)})
	}
	return made
}

// withText calls work with a text as C has it.
func withText(text string, work func(C.qr_string) *C.qr_status) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	view := C.qr_string{size: C.uint64_t(len(text))}
	if len(text) > 0 {
		data := unsafe.StringData(text)
		pinner.Pin(data)
		view.data = (*C.char)(unsafe.Pointer(data))
	}
	return check(work(view))
}

func goString(view C.qr_string) string {
	if view.size == 0 {
		return ""
	}
	return strings.Clone(unsafe.String((*byte)(unsafe.Pointer(view.data)), int(view.size)))
}

func takeText(text *C.char) string {
	defer C.qr_string_destroy(text)
	return C.GoString(text)
}

// Version is that of the library, "major.minor.patch".
func Version() string { return C.GoString(C.qr_version()) }

// A guard lets Close wait for calls that are inside, and has calls take turns where the ABI wants that.
type guard struct {
	mutex   sync.RWMutex
	cleanup runtime.Cleanup
}

// A core is a runtime of C's, which lives as long as an object of Go's needs it: signals of later calls are made from it.
type core struct {
	pointer *C.qr_runtime
	users   atomic.Int64
}

func (c *core) retain() *core {
	c.users.Add(1)
	return c
}

func (c *core) release() {
	if c.users.Add(-1) == 0 {
		C.qr_runtime_destroy(c.pointer)
	}
}

// Runtime is the plugin search path and thread pools.
type Runtime struct {
	guard
	core *core // nil once closed
}

// NewRuntime makes a runtime with the defaults.
func NewRuntime() (*Runtime, error) {
	made := &core{}
	if err := check(C.qr_runtime_create(nil, &made.pointer)); err != nil {
		return nil, err
	}
	r := &Runtime{core: made.retain()}
	r.cleanup = runtime.AddCleanup(r, (*core).release, made)
	return r, nil
}

// Close lets go of the runtime; what was made from it goes on.
func (r *Runtime) Close() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.core != nil {
		r.cleanup.Stop()
		r.core.release()
		r.core = nil
	}
}

func (r *Runtime) get() *C.qr_runtime {
	if r.core == nil {
		return nil // the library says what that is
	}
	return r.core.pointer
}

// Backend is what the loader says of one candidate plugin.
type Backend struct {
	ID, Path, Version, Verdict, ErrorID, Hint string
	Usable                                    bool
	Devices                                   int
}

// Backends looks at every candidate plugin.
func (r *Runtime) Backends() ([]Backend, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var count C.uint64_t
	if err := check(C.qr_runtime_scan(r.get(), &count)); err != nil {
		return nil, err
	}
	found := make([]Backend, 0, count)
	for i := C.uint64_t(0); i < count; i++ {
		info := C.qr_backend_info{struct_size: C.sizeof_qr_backend_info}
		if err := check(C.qr_runtime_backend(r.get(), i, &info)); err != nil {
			return nil, err
		}
		found = append(found, Backend{goString(info.id), goString(info.path), goString(info.version), goString(info.verdict),
			goString(info.error_id), goString(info.hint), info.usable != 0, int(info.device_count)})
	}
	return found, nil
}

// Options are keys and values (docs/options.md); nil means all defaults.
type Options map[string]string

func (o Options) make(r *C.qr_runtime) (*C.qr_options, error) {
	if len(o) == 0 {
		return nil, nil
	}
	var made *C.qr_options
	if err := check(C.qr_options_create(r, &made)); err != nil {
		return nil, err
	}
	for key, value := range o {
		err := withText(key, func(key C.qr_string) *C.qr_status {
			var status *C.qr_status
			var pinner runtime.Pinner
			defer pinner.Unpin()
			view := C.qr_string{size: C.uint64_t(len(value))}
			if len(value) > 0 {
				pinner.Pin(unsafe.StringData(value))
				view.data = (*C.char)(unsafe.Pointer(unsafe.StringData(value)))
			}
			status = C.qr_options_set(made, key, view)
			return status
		})
		if err != nil {
			C.qr_options_destroy(made)
			return nil, err
		}
	}
	return made, nil
}

// watched calls work with a signal that a context's end aborts; nil where the context cannot end.
func watched(ctx context.Context, r *C.qr_runtime, work func(*C.qr_signal) error) error {
	if ctx == nil || ctx.Done() == nil {
		return work(nil)
	}
	if err := ctx.Err(); err != nil {
		return ended(err, nil)
	}
	var signal *C.qr_signal
	if err := check(C.qr_signal_create(r, &signal)); err != nil {
		return err
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		C.qr_signal_abort(signal)
		close(done)
	})
	err := work(signal)
	if !stop() {
		<-done // it is aborting the signal just now
	}
	C.qr_signal_destroy(signal)
	return byContext(ctx, err)
}

// byContext has a call's error tell of the context that ended it.
func byContext(ctx context.Context, err error) error {
	var failed *Error
	if errors.As(err, &failed) && (failed.Code == Cancelled || failed.Code == DeadlineExceeded) && ctx != nil && ctx.Err() != nil {
		return ended(ctx.Err(), failed)
	}
	return err
}

func ended(cause error, failed *Error) error {
	made := Error{Code: Cancelled, ID: "QR-C0011", Message: "the context ended before the call", cause: cause}
	if failed != nil {
		made = *failed
		made.cause = cause
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		made.Code = DeadlineExceeded
	}
	return &made
}

// Model is an opened .onnx or .qrm: immutable, for any number of goroutines and sessions.
type Model struct {
	guard
	modelParts
}

type modelParts struct {
	pointer *C.qr_model
	core    *core
}

func (p modelParts) destroy() {
	C.qr_model_destroy(p.pointer)
	p.core.release()
}

// OpenModel opens a file.
func OpenModel(r *Runtime, path string, options Options) (*Model, error) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	c, err := options.make(r.get())
	if err != nil {
		return nil, err
	}
	defer C.qr_options_destroy(c)
	var pointer *C.qr_model
	if err := withText(path, func(path C.qr_string) *C.qr_status { return C.qr_model_open_path(r.get(), path, c, &pointer) }); err != nil {
		return nil, err
	}
	made := &Model{modelParts: modelParts{pointer, r.core.retain()}}
	made.cleanup = runtime.AddCleanup(made, modelParts.destroy, made.modelParts)
	return made, nil
}

// Close lets go of the model; its sessions keep what they need.
func (m *Model) Close() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.pointer != nil {
		m.cleanup.Stop()
		m.destroy()
		m.pointer = nil
	}
}

// Inspect gives everything the model says of itself, as JSON.
func (m *Model) Inspect() (string, error) {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	var text *C.char
	if err := check(C.qr_model_inspect(m.pointer, &text)); err != nil {
		return "", err
	}
	return takeText(text), nil
}

// Compile writes a .qrm, which appears whole or not at all.
func (m *Model) Compile(ctx context.Context, path string, options Options) error {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	if m.pointer == nil {
		return check(C.qr_model_verify(nil)) // the library's words for a closed one
	}
	c, err := options.make(m.core.pointer)
	if err != nil {
		return err
	}
	defer C.qr_options_destroy(c)
	return watched(ctx, m.core.pointer, func(signal *C.qr_signal) error {
		call := (*C.qr_call_options)(C.calloc(1, C.sizeof_qr_call_options))
		defer C.free(unsafe.Pointer(call))
		call.struct_size, call.signal = C.sizeof_qr_call_options, signal
		return withText(path, func(path C.qr_string) *C.qr_status { return C.qr_model_compile(m.pointer, c, path, call) })
	})
}

// TensorInfo is what is known of an input or output. An extent is -1 where it is symbolic, or known only after a run.
type TensorInfo struct {
	Name  string
	DType DType
	Shape []int
}

func infoOf(info *C.qr_tensor_info) TensorInfo {
	shape := make([]int, info.rank)
	for axis := range shape {
		shape[axis] = int(info.dims[axis])
	}
	return TensorInfo{goString(info.name), DType(info.dtype), shape}
}

func (i TensorInfo) String() string { return fmt.Sprintf("%s %s%v", i.Name, i.DType, i.Shape) }
