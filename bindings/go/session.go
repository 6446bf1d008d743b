// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"runtime"
	"slices"
	"unsafe"
)

// DType is the element type of a tensor; the numbers are those of ONNX.
type DType int32

// The types of types.h that Go has, and those whose bits it can hold.
const (
	F32  DType = C.QR_DTYPE_F32
	U8   DType = C.QR_DTYPE_U8
	I8   DType = C.QR_DTYPE_I8
	U16  DType = C.QR_DTYPE_U16
	I16  DType = C.QR_DTYPE_I16
	I32  DType = C.QR_DTYPE_I32
	I64  DType = C.QR_DTYPE_I64
	Bool DType = C.QR_DTYPE_BOOL
	F16  DType = C.QR_DTYPE_F16
	F64  DType = C.QR_DTYPE_F64
	U32  DType = C.QR_DTYPE_U32
	U64  DType = C.QR_DTYPE_U64
	BF16 DType = C.QR_DTYPE_BF16
)

func (d DType) String() string { return C.GoString(C.qr_dtype_name(C.qr_dtype(d))) }

// Element is a Go type that tensors have.
type Element interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | bool
}

func dtypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return F32
	case float64:
		return F64
	case int8:
		return I8
	case int16:
		return I16
	case int32:
		return I32
	case int64:
		return I64
	case uint8:
		return U8
	case uint16:
		return U16
	case uint32:
		return U32
	case uint64:
		return U64
	}
	return Bool
}

// Tensor is a shape and a slice of the caller's, which runs use where it lies.
type Tensor struct {
	DType DType
	Shape []int
	Bytes []byte // the slice's memory; of types under 8 bits packed, the first element in the low bits

	memory *Memory // in place of Bytes: InMemory
	offset int
}

// What a run is lent: pinned slices, and memories that must not be closed meanwhile.
type lent struct {
	pinner   runtime.Pinner
	memories []*Memory
}

func (l *lent) release() {
	l.pinner.Unpin()
	for _, memory := range l.memories {
		memory.mutex.RUnlock()
	}
}

// hold keeps a memory open until release. Once for each: a second lock would wait for a Close that waits for the first.
func (l *lent) hold(memory *Memory) *C.qr_memory {
	if !slices.Contains(l.memories, memory) {
		memory.mutex.RLock()
		l.memories = append(l.memories, memory)
	}
	return memory.pointer
}

// TensorOf is a slice as a tensor, without a copy. A run refuses one whose shape has another number of elements.
func TensorOf[T Element](data []T, shape ...int) Tensor {
	var zero T
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(zero)))
	return Tensor{DType: dtypeOf[T](), Shape: shape, Bytes: bytes}
}

// Data is a tensor's elements, where they lie.
func Data[T Element](t Tensor) ([]T, error) {
	var zero T
	if t.DType != dtypeOf[T]() {
		return nil, refused("the tensor is %s, asked for as %s", t.DType, dtypeOf[T]())
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(t.Bytes))), len(t.Bytes)/int(unsafe.Sizeof(zero))), nil
}

// Session is one execution state of a model. Calls of several goroutines take turns; Clone gives one its own.
type Session struct {
	object[*C.qr_session]
	inputs, outputs []TensorInfo
	room            room
}

// A room is in C's memory, so that a run hands no Go pointer to a Go pointer: tensors, and pointers to them.
type room struct {
	tensors *C.qr_tensor
	places  **C.qr_tensor
	options *C.qr_run_options
}

// Open makes a session of a model's file, with a runtime of its own.
func Open(path string, options Options) (*Session, error) {
	r, err := NewRuntime()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	m, err := OpenModel(r, path, options)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.NewSession(context.Background(), options)
}

// NewSession makes the model ready on the backend that the option "backend" names.
func (m *Model) NewSession(ctx context.Context, options Options) (*Session, error) {
	var made *Session
	err := m.with(options, func(c *C.qr_options) error {
		var pointer *C.qr_session
		err := called(ctx, m.core.pointer, func(call *C.qr_call_options) *C.qr_status { return C.qr_session_create(m.pointer, c, call, &pointer) })
		if err == nil {
			made, err = newSession(m.core, pointer)
		}
		return err
	})
	return made, err
}

func newSession(c *core, pointer *C.qr_session) (*Session, error) {
	s := new(Session)
	var err error
	s.inputs, err = infosOf(C.qr_session_input_count(pointer), func(i C.uint64_t, info *C.qr_tensor_info) *C.qr_status { return C.qr_session_input(pointer, i, info) })
	if err == nil {
		s.outputs, err = infosOf(C.qr_session_output_count(pointer), func(i C.uint64_t, info *C.qr_tensor_info) *C.qr_status { return C.qr_session_output(pointer, i, info) })
	}
	if err != nil {
		C.qr_session_destroy(pointer)
		return nil, err
	}
	count := len(s.inputs) + len(s.outputs)
	var made room
	made.tensors = (*C.qr_tensor)(C.calloc(C.size_t(count+1), C.sizeof_qr_tensor))
	made.places = (**C.qr_tensor)(C.calloc(C.size_t(count+1), C.size_t(unsafe.Sizeof(made.tensors))))
	made.options = (*C.qr_run_options)(C.calloc(1, C.sizeof_qr_run_options))
	made.options.struct_size = C.sizeof_qr_run_options
	tensors, places := unsafe.Slice(made.tensors, count+1), unsafe.Slice(made.places, count+1)
	for i := range tensors {
		tensors[i].struct_size = C.sizeof_qr_tensor
		places[i] = &tensors[i]
	}
	s.room = made
	s.own(pointer, c, func(pointer *C.qr_session) {
		C.qr_session_destroy(pointer)
		C.free(unsafe.Pointer(made.tensors))
		C.free(unsafe.Pointer(made.places))
		C.free(unsafe.Pointer(made.options))
	})
	return s, nil
}

// Close ends the session, after a run that is under way; queued runs are aborted.
func (s *Session) Close() {
	s.mutex.RLock()
	C.qr_session_abort(s.pointer, 0)
	s.mutex.RUnlock()
	s.object.Close()
}

// Clone is another session of the same model: it shares weights and programs, and has its own working memory.
func (s *Session) Clone() (*Session, error) { return s.CloneContext(context.Background()) }

// CloneContext is Clone that a context's end stops.
func (s *Session) CloneContext(ctx context.Context) (*Session, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pointer == nil {
		return nil, check(C.qr_session_clone(nil, nil, nil))
	}
	var pointer *C.qr_session
	err := called(ctx, s.core.pointer, func(call *C.qr_call_options) *C.qr_status { return C.qr_session_clone(s.pointer, call, &pointer) })
	if err != nil {
		return nil, err
	}
	return newSession(s.core, pointer)
}

// Recover brings the device back after a run ended with the code DeviceLost: for every session on it.
func (s *Session) Recover(ctx context.Context) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pointer == nil {
		return check(C.qr_session_recover(nil, nil))
	}
	return called(ctx, s.core.pointer, func(call *C.qr_call_options) *C.qr_status { return C.qr_session_recover(s.pointer, call) })
}

// MemoryPlan is what a session needs, in bytes; see qr_memory_plan.
type MemoryPlan struct {
	Weights, Arena, IO, Device, Scratchpad, SpillFill uint64
}

// Plan says what a session would need, without making one.
func (m *Model) Plan(ctx context.Context, options Options) (MemoryPlan, error) {
	plan := C.qr_memory_plan{struct_size: C.sizeof_qr_memory_plan}
	err := m.with(options, func(c *C.qr_options) error {
		return called(ctx, m.core.pointer, func(call *C.qr_call_options) *C.qr_status { return C.qr_session_plan(m.pointer, c, call, &plan) })
	})
	if err != nil {
		return MemoryPlan{}, err
	}
	return MemoryPlan{uint64(plan.weights_bytes), uint64(plan.arena_bytes), uint64(plan.io_bytes), uint64(plan.device_bytes), uint64(plan.scratchpad_bytes),
		uint64(plan.spill_fill_bytes)}, nil
}

// Bucket is what one of a session's shape buckets takes and gives.
type Bucket struct{ Inputs, Outputs []TensorInfo }

// Buckets are the shape buckets that runs choose from (option "shape"); none while a container that does not suit is compiled in the background.
func (s *Session) Buckets() ([]Bucket, error) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	var found []Bucket
	for bucket := C.uint64_t(0); bucket < C.qr_session_bucket_count(s.pointer); bucket++ {
		inputs, err := infosOf(C.uint64_t(len(s.inputs)), func(i C.uint64_t, info *C.qr_tensor_info) *C.qr_status {
			return C.qr_session_bucket_input(s.pointer, bucket, i, info)
		})
		if err != nil {
			return nil, err
		}
		outputs, err := infosOf(C.uint64_t(len(s.outputs)), func(i C.uint64_t, info *C.qr_tensor_info) *C.qr_status {
			return C.qr_session_bucket_output(s.pointer, bucket, i, info)
		})
		if err != nil {
			return nil, err
		}
		found = append(found, Bucket{inputs, outputs})
	}
	return found, nil
}

// Inputs says what the session expects.
func (s *Session) Inputs() []TensorInfo { return s.inputs }

// Outputs says what it gives.
func (s *Session) Outputs() []TensorInfo { return s.outputs }

// Report is what the session is, as JSON.
func (s *Session) Report() (string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var text *C.char
	if err := check(C.qr_session_report(s.pointer, &text)); err != nil {
		return "", err
	}
	return takeText(text), nil
}

// Run runs the network. The outputs are the caller's: slices that the run has filled. A context that is cancelled, or whose deadline passes,
// ends the run; errors.Is then finds the context's error.
func (s *Session) Run(ctx context.Context, inputs ...Tensor) ([]Tensor, error) {
	outputs := make([]Tensor, len(s.outputs))
	return outputs, s.RunInto(ctx, inputs, outputs)
}

// RunInto writes into the slices that `outputs` has room in (Bytes); an empty one is given memory. Shape, DType and the length of Bytes are then
// the result's. Room with a DType is for an output of that type; another is an error, and nothing is written.
func (s *Session) RunInto(ctx context.Context, inputs, outputs []Tensor) error {
	return s.RunProfiled(ctx, nil, inputs, outputs)
}

// RunProfiled is RunInto that adds what the run did, and how long it took, to a profile; how much is the option "profiling_level".
func (s *Session) RunProfiled(ctx context.Context, profile *Profile, inputs, outputs []Tensor) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pointer == nil {
		return check(C.qr_session_run(nil, nil, nil, 0, nil, 0))
	}
	tensors := unsafe.Slice(s.room.tensors, len(s.inputs)+len(s.outputs))
	var lent lent
	defer lent.release()
	if err := s.set(tensors, inputs, outputs, &lent); err != nil {
		return err
	}
	if profile != nil {
		profile.mutex.Lock()
		defer profile.mutex.Unlock()
		s.room.options.profile = profile.pointer
		defer func() { s.room.options.profile = nil }()
	}
	if err := s.call(ctx, len(inputs), len(outputs)); err != nil {
		return err
	}
	for i := range outputs {
		outputs[i].take(&tensors[len(inputs)+i])
	}
	return nil
}

func (s *Session) call(ctx context.Context, inputs, outputs int) error {
	places := unsafe.Slice(s.room.places, inputs+outputs+1)
	if ctx == nil || ctx.Done() == nil {
		return check(C.qr_session_run(s.pointer, s.room.options, &places[0], C.uint64_t(inputs), &places[inputs], C.uint64_t(outputs)))
	}
	return watched(ctx, s.core.pointer, func(signal *C.qr_signal) error {
		s.room.options.signal = signal
		defer func() { s.room.options.signal = nil }()
		return check(C.qr_session_run(s.pointer, s.room.options, &places[0], C.uint64_t(inputs), &places[inputs], C.uint64_t(outputs)))
	})
}

// WarmUp runs each shape bucket once on zeros, so that the next run takes as long as those after it; the option "warm_up" does so when a session
// is made.
func (s *Session) WarmUp(ctx context.Context) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pointer == nil || ctx == nil || ctx.Done() == nil {
		return check(C.qr_session_warm_up(s.pointer, nil))
	}
	return watched(ctx, s.core.pointer, func(signal *C.qr_signal) error {
		s.room.options.signal = signal
		defer func() { s.room.options.signal = nil }()
		return check(C.qr_session_warm_up(s.pointer, s.room.options))
	})
}

// set describes inputs and outputs in C's memory.
func (s *Session) set(tensors []C.qr_tensor, inputs, outputs []Tensor, lent *lent) error {
	if len(inputs) != len(s.inputs) || len(outputs) != len(s.outputs) {
		return refused("found %d inputs and %d outputs, expected %d and %d", len(inputs), len(outputs), len(s.inputs), len(s.outputs))
	}
	for i := range inputs {
		if err := setInput(&tensors[i], s.inputs[i].Name, &inputs[i], lent); err != nil {
			return err
		}
	}
	for i := range outputs {
		if err := s.setOutput(&tensors[len(inputs)+i], i, &outputs[i], lent); err != nil {
			return err
		}
	}
	return nil
}

func setInput(c *C.qr_tensor, name string, given *Tensor, lent *lent) error {
	if len(given.Shape) > C.QR_MAX_RANK {
		return refused("input %s: found %d dimensions, expected at most %d", name, len(given.Shape), C.QR_MAX_RANK)
	}
	// C reads as many bytes as the shape has: the slice must have them.
	count := uint64(1)
	const most = uint64(1) << 56 // elements: so many of any type have room in 63 bits
	for axis, extent := range given.Shape {
		if extent < 0 || (extent > 0 && count > most/uint64(extent)) {
			return refused("input %s: found the shape %v", name, given.Shape)
		}
		count *= uint64(extent)
		c.dims[axis] = C.int64_t(extent)
	}
	c.rank = C.uint32_t(len(given.Shape))
	c.dtype = C.qr_dtype(given.DType)
	wanted := (count*bitsOf(given.DType) + 7) / 8
	if given.memory != nil {
		return given.memory.set(c, given.offset, int(wanted), lent)
	}
	c.memory, c.memory_offset = nil, 0
	if wanted != uint64(len(given.Bytes)) {
		return refused("input %s: found %d bytes for %s%v, expected %d", name, len(given.Bytes), given.DType, given.Shape, wanted)
	}
	c.size_bytes = C.uint64_t(len(given.Bytes))
	c.const_data = pinned(given.Bytes, &lent.pinner)
	return nil
}

func bitsOf(dtype DType) uint64 {
	switch dtype { // those that Go has, without a call of C
	case F32, I32, U32:
		return 32
	case U8, I8, Bool:
		return 8
	case F64, I64, U64:
		return 64
	case U16, I16, F16, BF16:
		return 16
	}
	return uint64(C.qr_dtype_bits(C.qr_dtype(dtype)))
}

func (s *Session) setOutput(c *C.qr_tensor, index int, room *Tensor, lent *lent) error {
	// Room that is of a type is for an output of that type.
	if room.DType != 0 && room.DType != s.outputs[index].DType {
		return refused("output %s: found room of %s, expected %s", s.outputs[index].Name, room.DType, s.outputs[index].DType)
	}
	c.flags = 0 // what an earlier run gave of the session's own is put aside here
	if room.memory != nil {
		return room.memory.set(c, room.offset, -1, lent)
	}
	c.memory, c.memory_offset = nil, 0
	if len(room.Bytes) == 0 {
		info := &s.outputs[index]
		count := uint64(1)
		for _, extent := range info.Shape {
			if extent < 0 {
				count = 0 // known only at run time: it lies in the session's memory, and take() copies it
				break
			}
			count *= uint64(extent)
		}
		// In words, so that it is aligned for every element.
		if size := int((count*bitsOf(info.DType) + 7) / 8); size > 0 {
			words := make([]uint64, (size+7)/8)
			room.Bytes = unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size)
		}
	}
	c.size_bytes = C.uint64_t(len(room.Bytes))
	c.data = pinned(room.Bytes, &lent.pinner)
	return nil
}

func pinned(bytes []byte, pinner *runtime.Pinner) unsafe.Pointer {
	if len(bytes) == 0 {
		return nil
	}
	data := unsafe.Pointer(unsafe.SliceData(bytes))
	pinner.Pin(data)
	return data
}

func (t *Tensor) take(c *C.qr_tensor) {
	t.DType = DType(c.dtype)
	if len(t.Shape) != int(c.rank) {
		t.Shape = make([]int, c.rank)
	}
	for axis := range t.Shape {
		t.Shape[axis] = int(c.dims[axis])
	}
	if t.memory != nil {
		return
	}
	size := int(c.size_bytes)
	if len(t.Bytes) == 0 && size > 0 {
		words := make([]uint64, (size+7)/8)
		t.Bytes = unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size)
		copy(t.Bytes, unsafe.Slice((*byte)(c.data), size))
	}
	t.Bytes = t.Bytes[:size]
}
