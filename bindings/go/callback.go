// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <stdlib.h>
// #include <stdint.h>
import "C"

import (
	"errors"
	"runtime/cgo"
	"syscall"
	"unsafe"
)

// A callback is what came of a function of Go's that C called within one call.
type callback struct {
	err      error
	panicked any
}

// outcome is the error of the call, with that of the function in it. A panic, which must not go through the library, goes on here.
func (c *callback) outcome(err error) error {
	if c.panicked != nil {
		panic(c.panicked)
	}
	var failed *Error
	if c.err != nil && errors.As(err, &failed) && failed.cause == nil {
		failed.cause = c.err
	}
	return err
}

// failed keeps the first error, and gives the number that C gets.
func (c *callback) failed(err error) C.int32_t {
	if c.err == nil {
		c.err = err
	}
	var known syscall.Errno
	if errors.As(err, &known) && known > 0 {
		return C.int32_t(known)
	}
	return C.int32_t(syscall.EIO)
}

// ownedBy gives what C hands back as `self`, until the function beside it is called. ownerOf finds the value.
func ownedBy(value any) (unsafe.Pointer, func()) {
	handle := cgo.NewHandle(value)
	self := (*C.uintptr_t)(C.malloc(C.sizeof_uintptr_t)) // a number of Go's is no pointer of C's
	*self = C.uintptr_t(handle)
	return unsafe.Pointer(self), func() {
		C.free(unsafe.Pointer(self))
		handle.Delete()
	}
}

func ownerOf[T any](self unsafe.Pointer) T {
	return cgo.Handle(*(*C.uintptr_t)(self)).Value().(T)
}
