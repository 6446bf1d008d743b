// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
// #include <stdlib.h>
// int32_t quarryGoBegin(void *self, qr_string name, uint64_t size_bytes, uint64_t more);
// int32_t quarryGoWrite(void *self, void *data, uint64_t size_bytes);
// int32_t quarryGoEnd(void *self, int32_t committed);
import "C"

import (
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Target is where a call writes: a path, else a file, else a writer, else memory.
type Target struct {
	Path   string    // appears whole or not at all
	File   *os.File  // written from its position on
	Writer io.Writer // takes one file; a FileWriter several
	Memory *[]byte   // is set where the call succeeds
	Name   string    // what the file would be called, where there is no Path: its ending says the form where a call knows several
	Folder *os.File  // a relative Path begins there; nil: in the working folder
}

// FileWriter is a writer that is given the names of the files that it gets, one after the other, and at the end whether all are whole.
type FileWriter interface {
	io.Writer
	Begin(name string, size, more uint64) error // more files follow
	End(committed bool) error                   // once; with false the call has failed
}

// A writing is a writer that C calls within a call, and what came of it.
type writing struct {
	callback
	to io.Writer
}

// with has a call write there, and gives its error with that of the writer in it.
func (t Target) with(call func(*C.qr_target) error) error {
	to := (*C.qr_target)(C.calloc(1, C.sizeof_qr_target))
	defer C.free(unsafe.Pointer(to))
	to.struct_size, to.fd, to.folder_fd = C.sizeof_qr_target, -1, -1
	name := t.Path
	if name == "" {
		name = t.Name
	}
	text := C.CBytes([]byte(name))
	defer C.free(text)
	to.path = C.qr_string{data: (*C.char)(text), size: C.uint64_t(len(name))}
	made := (*[2]C.uint64_t)(C.calloc(2, 8)) // a pointer and a size
	defer C.free(unsafe.Pointer(made))
	w := &writing{to: t.Writer}
	switch {
	case t.Path != "":
		to.kind = C.QR_TARGET_PATH
		if t.Folder != nil {
			to.folder_fd = C.int32_t(t.Folder.Fd())
		}
	case t.File != nil:
		to.kind, to.fd = C.QR_TARGET_DESCRIPTOR, C.int32_t(t.File.Fd())
	case t.Writer != nil:
		to.kind = C.QR_TARGET_WRITER
		self, end := ownedBy(w)
		defer end()
		to.self = self
		to.begin, to.write, to.end = (*[0]byte)(C.quarryGoBegin), (*[0]byte)(C.quarryGoWrite), (*[0]byte)(C.quarryGoEnd)
	case t.Memory != nil:
		to.kind = C.QR_TARGET_MEMORY
		to.out_data, to.out_size_bytes = (*unsafe.Pointer)(unsafe.Pointer(&made[0])), &made[1]
	default:
		to.kind = C.QR_TARGET_PATH // without one: the library says so
	}
	err := call(to)
	runtime.KeepAlive(t)
	err = w.outcome(err)
	if to.kind == C.QR_TARGET_MEMORY {
		data := *to.out_data
		if err == nil {
			*t.Memory = append([]byte{}, unsafe.Slice((*byte)(data), int(made[1]))...)
		}
		C.qr_string_destroy((*C.char)(data))
	}
	return err
}

// called calls the writer. A panic must not go through the library: it goes on when the call has ended.
func (w *writing) called(body func() error) (number C.int32_t) {
	defer func() {
		if panicked := recover(); panicked != nil {
			w.panicked, number = panicked, C.int32_t(syscall.EIO)
		}
	}()
	if err := body(); err != nil {
		return w.failed(err)
	}
	return 0
}

//export quarryGoBegin
func quarryGoBegin(self unsafe.Pointer, name C.qr_string, size, more C.uint64_t) C.int32_t {
	w := ownerOf[*writing](self)
	return w.called(func() error {
		if files, ok := w.to.(FileWriter); ok {
			return files.Begin(goString(name), uint64(size), uint64(more))
		}
		if more > 0 {
			return refused("a writer takes one file, and %q has %d more beside it: give a path, or a FileWriter", goString(name), uint64(more))
		}
		return nil
	})
}

//export quarryGoWrite
func quarryGoWrite(self unsafe.Pointer, data unsafe.Pointer, size C.uint64_t) C.int32_t {
	w := ownerOf[*writing](self)
	return w.called(func() error {
		_, err := w.to.Write(unsafe.Slice((*byte)(data), int(size))) // who writes must not keep it
		return err
	})
}

//export quarryGoEnd
func quarryGoEnd(self unsafe.Pointer, committed C.int32_t) C.int32_t {
	w := ownerOf[*writing](self)
	return w.called(func() error {
		if files, ok := w.to.(FileWriter); ok {
			return files.End(committed != 0)
		}
		return nil
	})
}
