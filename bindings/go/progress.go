// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
// #include <stdlib.h>
// int32_t quarryGoProgress(void *self, uint64_t done, uint64_t total, qr_string what);
import "C"

import (
	"context"
	"unsafe"
)

// Progress is called with how far a long call has come: done of total steps (total 0: not known), and what it is doing. On whichever
// thread is inside Quarry. An error of its stops the call and is found in the call's by errors.Is and errors.As.
type Progress func(done, total uint64, what string) error

type progressKey struct{}

// WithProgress gives a context whose calls that open, compile, check, create, verify or quantise report to the function how far they are.
func WithProgress(ctx context.Context, report Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// A reporting is a progress function that C calls within one call, and what came of it.
type reporting struct {
	callback
	report Progress
}

// lend names the reporting in a call's options, until what it gives is called.
func (r *reporting) lend(call *C.qr_call_options) func() {
	self, end := ownedBy(r)
	progress := (*C.qr_progress)(C.calloc(1, C.sizeof_qr_progress))
	progress.struct_size, progress.self, progress.report = C.sizeof_qr_progress, self, (*[0]byte)(C.quarryGoProgress)
	call.progress = progress
	return func() {
		C.free(unsafe.Pointer(progress))
		end()
	}
}

//export quarryGoProgress
func quarryGoProgress(self unsafe.Pointer, done, total C.uint64_t, what C.qr_string) (answer C.int32_t) {
	r := ownerOf[*reporting](self)
	// A panic must not go through the library: it goes on when the call has ended.
	defer func() {
		if panicked := recover(); panicked != nil {
			r.panicked, answer = panicked, C.QR_STOP
		}
	}()
	if r.err == nil {
		r.err = r.report(uint64(done), uint64(total), goString(what))
	}
	if r.err != nil {
		return C.QR_STOP
	}
	return C.QR_GO_ON
}
