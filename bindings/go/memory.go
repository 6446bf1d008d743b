// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Memory is a buffer that a device reads and writes without a copy, of use to every session of the runtime on that device.
type Memory struct {
	guard
	memoryParts
}

type memoryParts struct {
	pointer *C.qr_memory
	core    *core
	pinner  *runtime.Pinner // of a slice that was registered
}

func (p memoryParts) destroy() {
	C.qr_memory_destroy(p.pointer)
	p.pinner.Unpin()
	p.core.release()
}

// AllocateMemory gives memory that suits the session's device, zero-filled.
func (s *Session) AllocateMemory(size int) (*Memory, error) {
	return s.newMemory(func(out **C.qr_memory, _ *runtime.Pinner) *C.qr_status {
		return C.qr_memory_allocate(s.pointer, C.uint64_t(max(size, 0)), nil, out)
	})
}

// RegisterMemory makes a slice known to the session's device. It is pinned, and the memory's, until Close.
func (s *Session) RegisterMemory(slice []byte) (*Memory, error) {
	return s.newMemory(func(out **C.qr_memory, pinner *runtime.Pinner) *C.qr_status {
		return C.qr_memory_register(s.pointer, pinned(slice, pinner), C.uint64_t(len(slice)), nil, out)
	})
}

func (s *Session) newMemory(make func(**C.qr_memory, *runtime.Pinner) *C.qr_status) (*Memory, error) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	var pointer *C.qr_memory // no part of a struct with pointers of Go's
	pinner := new(runtime.Pinner)
	if err := check(make(&pointer, pinner)); err != nil {
		pinner.Unpin()
		return nil, err
	}
	parts := memoryParts{pointer, s.core, pinner}
	s.core.retain()
	made := &Memory{memoryParts: parts}
	made.cleanup = runtime.AddCleanup(made, memoryParts.destroy, parts)
	return made, nil
}

// Close lets go of the memory, after runs that use it.
func (m *Memory) Close() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.pointer != nil {
		m.cleanup.Stop()
		m.destroy()
		m.pointer = nil
	}
}

// Size is in bytes; 0 once it is closed.
func (m *Memory) Size() int {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	return int(C.qr_memory_size(m.pointer))
}

// Access calls work with the host's view of the memory, which is good until work returns. Runs that use the memory wait for it.
func (m *Memory) Access(work func(bytes []byte)) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	const both = C.QR_ACCESS_READ | C.QR_ACCESS_WRITE
	size := int(C.qr_memory_size(m.pointer))
	if own := C.qr_memory_data(m.pointer); own != nil {
		if err := check(C.qr_memory_begin_access(m.pointer, both)); err != nil {
			return err
		}
		work(unsafe.Slice((*byte)(own), size))
		return check(C.qr_memory_end_access(m.pointer, both))
	}
	var mapped unsafe.Pointer
	if err := check(C.qr_memory_map(m.pointer, both, &mapped)); err != nil {
		return err
	}
	work(unsafe.Slice((*byte)(mapped), size))
	return check(C.qr_memory_unmap(m.pointer))
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
		return fmt.Errorf("quarry: found a tensor of %d bytes behind offset %d of a memory of %d", size, offset, has)
	}
	c.data, c.size_bytes = nil, C.uint64_t(size)
	c.memory, c.memory_offset = pointer, C.uint64_t(offset)
	return nil
}
