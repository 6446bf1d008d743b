// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// Memory is a buffer that a device reads and writes without a copy, of use to every session of the runtime on that device.
type Memory struct {
	object[*C.qr_memory]
}

// AllocateMemory gives memory that suits the session's device, zero-filled.
func (s *Session) AllocateMemory(size int) (*Memory, error) {
	return s.guard.newMemory(s.core, func(out **C.qr_memory, _ *runtime.Pinner) *C.qr_status {
		return C.qr_memory_allocate(s.pointer, C.uint64_t(max(size, 0)), nil, out)
	})
}

// RegisterMemory makes a slice known to the session's device. It is pinned, and the memory's, until Close.
func (s *Session) RegisterMemory(slice []byte) (*Memory, error) {
	return s.guard.newMemory(s.core, func(out **C.qr_memory, pinner *runtime.Pinner) *C.qr_status {
		return C.qr_memory_register(s.pointer, pinned(slice, pinner), C.uint64_t(len(slice)), nil, out)
	})
}

// AllocateMemory gives memory of a device of a backend before there is a session: by the backend's id ("gpu") and the device's number.
func (r *Runtime) AllocateMemory(backend string, device, size int) (*Memory, error) {
	return r.newMemory(backend, device, func(options *C.qr_memory_options, out **C.qr_memory, _ *runtime.Pinner) *C.qr_status {
		return C.qr_memory_allocate(nil, C.uint64_t(max(size, 0)), options, out)
	})
}

// RegisterMemory makes a slice known to a device of a backend before there is a session. It is pinned, and the memory's, until Close.
func (r *Runtime) RegisterMemory(backend string, device int, slice []byte) (*Memory, error) {
	return r.newMemory(backend, device, func(options *C.qr_memory_options, out **C.qr_memory, pinner *runtime.Pinner) *C.qr_status {
		return C.qr_memory_register(nil, pinned(slice, pinner), C.uint64_t(len(slice)), options, out)
	})
}

func (r *Runtime) newMemory(backend string, device int, make func(*C.qr_memory_options, **C.qr_memory, *runtime.Pinner) *C.qr_status) (*Memory, error) {
	options := (*C.qr_memory_options)(C.calloc(1, C.sizeof_qr_memory_options))
	defer C.free(unsafe.Pointer(options))
	id, free := copyOf(backend)
	defer free()
	r.mutex.RLock()
	core := r.core
	r.mutex.RUnlock()
	options.struct_size, options.device = C.sizeof_qr_memory_options, C.uint32_t(device)
	options.backend = id
	return r.guard.newMemory(core, func(out **C.qr_memory, pinner *runtime.Pinner) *C.qr_status {
		options.runtime = r.get()
		return make(options, out, pinner)
	})
}

func (g *guard) newMemory(core *core, make func(**C.qr_memory, *runtime.Pinner) *C.qr_status) (*Memory, error) {
	g.mutex.RLock()
	defer g.mutex.RUnlock()
	var pointer *C.qr_memory // no part of a struct with pointers of Go's
	pinner := new(runtime.Pinner)
	if err := check(make(&pointer, pinner)); err != nil {
		pinner.Unpin()
		return nil, err
	}
	made := new(Memory)
	made.own(pointer, core, func(pointer *C.qr_memory) {
		C.qr_memory_destroy(pointer)
		pinner.Unpin() // of a slice that was registered
	})
	return made, nil
}

// Size is in bytes; 0 once it is closed.
func (m *Memory) Size() int {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	return int(C.qr_memory_size(m.pointer))
}

// Access calls work with the host's view of the memory, which is good until work returns. Runs that use the memory wait for it.
func (m *Memory) Access(work func(bytes []byte)) (err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	const both = C.QR_ACCESS_READ | C.QR_ACCESS_WRITE
	size := int(C.qr_memory_size(m.pointer))
	if own := C.qr_memory_data(m.pointer); own != nil {
		if err := check(C.qr_memory_begin_access(m.pointer, both)); err != nil {
			return err
		}
		defer func() { err = check(C.qr_memory_end_access(m.pointer, both)) }() // where work panics too
		work(unsafe.Slice((*byte)(own), size))
		return nil
	}
	var mapped unsafe.Pointer
	if err := check(C.qr_memory_map(m.pointer, both, &mapped)); err != nil {
		return err
	}
	defer func() { err = check(C.qr_memory_unmap(m.pointer)) }()
	work(unsafe.Slice((*byte)(mapped), size))
	return nil
}

// InMemory is a tensor in a memory. As room for an output it needs no shape.
func InMemory(memory *Memory, offset int, dtype DType, shape ...int) Tensor {
	return Tensor{DType: dtype, Shape: shape, memory: memory, offset: offset}
}

// set names a part of the memory in a tensor of C's; of size -1: all from the offset on.
func (m *Memory) set(c *C.qr_tensor, offset, size int, lent *lent) error {
	pointer := lent.hold(m)
	if pointer == nil {
		return check(C.qr_memory_begin_access(nil, C.QR_ACCESS_READ)) // the library's words for a closed one
	}
	has := int(C.qr_memory_size(pointer))
	if size < 0 {
		size = has - offset
	}
	if offset < 0 || offset > has || size < 0 || size > has-offset {
		return refused("found a tensor of %d bytes behind offset %d of a memory of %d", size, offset, has)
	}
	c.data, c.const_data, c.size_bytes = nil, nil, C.uint64_t(size)
	c.memory, c.memory_offset = pointer, C.uint64_t(offset)
	return nil
}
