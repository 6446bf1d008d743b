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
	"log/slog"
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

func check(status *C.qr_status) error {
	if status == nil {
		return nil
	}
	defer C.qr_status_destroy(status)
	made := &Error{
		Code:    Code(C.qr_status_code(status)),
		ID:      C.GoString(C.qr_status_id(status)),
		Message: C.GoString(C.qr_status_message(status)),
		Hint:    inGo(C.GoString(C.qr_status_hint(status))),
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
	return check(work(textIn(text, &pinner)))
}

// textIn is a text as C has it, where it lies, until the pinner lets go.
func textIn(text string, pinner *runtime.Pinner) C.qr_string {
	view := C.qr_string{size: C.uint64_t(len(text))}
	if len(text) > 0 {
		data := unsafe.StringData(text)
		pinner.Pin(data)
		view.data = (*C.char)(unsafe.Pointer(data))
	}
	return view
}

// copyOf is a text in C's memory, where C's structs may point to, until what comes with it is called.
func copyOf(text string) (view C.qr_string, free func()) {
	data := C.CBytes([]byte(text))
	return C.qr_string{data: (*C.char)(data), size: C.uint64_t(len(text))}, func() { C.free(data) }
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

// ABIVersion is major and minor of the library's C ABI.
func ABIVersion() (major, minor int) {
	found := C.qr_abi_version()
	return int(found >> 16), int(found & 0xffff)
}

// checkABI refuses a library that the package was not built for.
func checkABI(major, minor int) error {
	if major == C.QR_ABI_MAJOR && minor >= C.QR_ABI_MINOR {
		return nil
	}
	made := refused("libquarry has the C ABI %d.%d, expected %d.%d, or a later minor", major, minor, C.QR_ABI_MAJOR, C.QR_ABI_MINOR)
	made.Code, made.Hint = Incompatible, "install the library that the package was built with"
	return made
}

// A guard lets Close wait for calls that are inside, and has calls take turns where the ABI wants that.
type guard struct {
	mutex   sync.RWMutex
	cleanup runtime.Cleanup
}

// An object is one of C's that lives with a runtime, until Close or until the garbage collector finds that nobody has it.
type object[P comparable] struct {
	guard
	owned[P]
}

// owned is what it takes to free one.
type owned[P comparable] struct {
	pointer P // nil once closed
	core    *core
	free    func(P)
}

func (o owned[P]) destroy() {
	o.free(o.pointer)
	o.core.release()
}

// own is called once, for what C has just made. What free holds must not lead back to o.
func (o *object[P]) own(pointer P, core *core, free func(P)) {
	o.owned = owned[P]{pointer, core.retain(), free}
	o.cleanup = runtime.AddCleanup(o, owned[P].destroy, o.owned)
}

// Close lets go of the object, after calls that are under way; what was made from it keeps what it needs. It may be called again.
func (o *object[P]) Close() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	var closed P
	if o.pointer != closed {
		o.cleanup.Stop()
		o.destroy()
		o.pointer = closed
	}
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

// RuntimeOptions are what a runtime is made with; the zero value is the defaults.
type RuntimeOptions struct {
	BackendPath []string     // folders of plugins, searched before the others
	Log         *slog.Logger // where log lines go, from the level on that it is enabled for; nil: to nobody
}

// NewRuntime makes a runtime with the defaults.
func NewRuntime() (*Runtime, error) { return NewRuntimeWith(RuntimeOptions{}) }

// NewRuntimeWith makes a runtime. A log goes on for as long as what is made from it.
func NewRuntimeWith(options RuntimeOptions) (*Runtime, error) {
	if err := checkABI(ABIVersion()); err != nil {
		return nil, err
	}
	made := &core{}
	err := options.with(func(c *C.qr_runtime_options) *C.qr_status { return C.qr_runtime_create(c, &made.pointer) })
	if err != nil {
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
			var pinner runtime.Pinner
			defer pinner.Unpin()
			return C.qr_options_set(made, key, textIn(value, &pinner))
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

// called calls work with the options of a call that a context's end stops.
func called(ctx context.Context, r *C.qr_runtime, work func(*C.qr_call_options) *C.qr_status) error {
	return watched(ctx, r, func(signal *C.qr_signal) error {
		call := (*C.qr_call_options)(C.calloc(1, C.sizeof_qr_call_options))
		defer C.free(unsafe.Pointer(call))
		call.struct_size, call.signal = C.sizeof_qr_call_options, signal
		if ctx == nil {
			return check(work(call))
		}
		report, _ := ctx.Value(progressKey{}).(Progress)
		if report == nil {
			return check(work(call))
		}
		reporting := reporting{report: report}
		defer reporting.lend(call)()
		return reporting.outcome(check(work(call)))
	})
}

// byContext has a call's error name the context that ended it.
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
	made.Hint = "" // it speaks of signals, which this package has not
	if errors.Is(cause, context.DeadlineExceeded) {
		made.Code, made.Hint = DeadlineExceeded, "give the context more time"
	}
	return &made
}
