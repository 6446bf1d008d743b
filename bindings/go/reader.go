// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
// #include <stdlib.h>
// int32_t quarryGoRead(void *self, uint64_t offset, void *to, uint64_t size_bytes);
// int32_t quarryGoExternal(void *self, qr_string name, qr_model_source *out_source);
import "C"

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
	"unsafe"
)

// A reading is a reader that C calls within qr_model_open, and what came of it.
type reading struct {
	callback
	from     io.ReaderAt
	external func(name string) (io.ReaderAt, int64, error)
	parts    []func() // end the lending of the external data's readings
	whole    *reading // of external data: that of the model
}

// lend names the reading in a source of C's, until what it gives is called.
func (r *reading) lend(source *C.qr_model_source) func() {
	self, end := ownedBy(r)
	source.self = self
	if r.from != nil {
		source.read = (*[0]byte)(C.quarryGoRead)
	}
	if r.external != nil {
		source.external = (*[0]byte)(C.quarryGoExternal)
	}
	return func() {
		for _, endPart := range r.parts {
			endPart()
		}
		end()
	}
}

// first is the reading that the call is named by: of external data that of the model.
func (r *reading) first() *reading {
	if r.whole != nil {
		return r.whole
	}
	return r
}

// caught has a panic wait until the call has ended: it must not go through the library.
func (r *reading) caught(number *C.int32_t) {
	if panicked := recover(); panicked != nil {
		r.first().panicked, *number = panicked, C.int32_t(syscall.EIO)
	}
}

//export quarryGoExternal
func quarryGoExternal(self unsafe.Pointer, name C.qr_string, source *C.qr_model_source) (number C.int32_t) {
	r := ownerOf[*reading](self)
	defer r.caught(&number)
	from, size, err := r.external(goString(name))
	if errors.Is(err, fs.ErrNotExist) {
		return C.int32_t(syscall.ENOENT)
	}
	if err != nil {
		return r.first().failed(err)
	}
	part := &reading{from: from, whole: r}
	source.kind, source.size_bytes = C.QR_SOURCE_READER, C.uint64_t(size)
	r.parts = append(r.parts, part.lend(source))
	return 0
}

//export quarryGoRead
func quarryGoRead(self unsafe.Pointer, offset C.uint64_t, to unsafe.Pointer, size C.uint64_t) (number C.int32_t) {
	r := ownerOf[*reading](self)
	defer r.caught(&number)
	part := unsafe.Slice((*byte)(to), int(size))
	count, err := r.from.ReadAt(part, int64(offset))
	if count == len(part) {
		return 0
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return r.first().failed(err)
}
