// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"sync"
	"unsafe"
)

// Run is a run in a session's queue.
type Run struct {
	session *Session
	ticket  C.uint64_t
	outputs []Tensor
	done    chan struct{}
	err     error
	mutex   sync.Mutex
	over    bool
}

// Submit queues a run and returns; runs of a session end in the order in which they were submitted. At most "queue_depth" (an option) are
// under way: one more is an *Error with the code Busy. The slices are the run's until it has ended. A context that ends aborts the run.
func (s *Session) Submit(ctx context.Context, inputs, outputs []Tensor) (*Run, error) {
	s.mutex.RLock() // until the run has ended: Close aborts it and waits
	run, err := s.submit(ctx, inputs, outputs)
	if err != nil {
		s.mutex.RUnlock()
	}
	return run, err
}

func (s *Session) submit(ctx context.Context, inputs, outputs []Tensor) (*Run, error) {
	if s.pointer == nil {
		return nil, check(C.qr_session_submit(nil, nil, nil, 0, nil, 0, nil))
	}
	if ctx != nil && ctx.Err() != nil {
		return nil, ended(ctx.Err(), nil)
	}
	count := len(s.inputs) + len(s.outputs)
	// In C's memory: the library reads and writes them after this call.
	tensors := (*C.qr_tensor)(C.calloc(C.size_t(count+1), C.sizeof_qr_tensor))
	places := (**C.qr_tensor)(C.calloc(C.size_t(count+1), C.size_t(unsafe.Sizeof(tensors))))
	defer C.free(unsafe.Pointer(places))
	all, pointers := unsafe.Slice(tensors, count+1), unsafe.Slice(places, count+1)
	for i := range all {
		all[i].struct_size = C.sizeof_qr_tensor
		pointers[i] = &all[i]
	}
	lent := new(lent)
	release := func() {
		lent.release()
		C.free(unsafe.Pointer(tensors))
	}
	if err := s.set(all[:count], inputs, outputs, lent); err != nil {
		release()
		return nil, err
	}
	run := &Run{session: s, outputs: outputs, done: make(chan struct{})}
	split := len(inputs)
	err := check(C.qr_session_submit(s.pointer, nil, &pointers[0], C.uint64_t(split), &pointers[split], C.uint64_t(len(outputs)), &run.ticket))
	if err != nil {
		release()
		return nil, err
	}
	stop := func() bool { return true }
	if ctx != nil && ctx.Done() != nil {
		stop = context.AfterFunc(ctx, run.Abort)
	}
	// It keeps session, slices and memories until the run has ended, whoever forgets it.
	go func() {
		err := check(C.qr_session_wait(s.pointer, run.ticket, nil, nil)) // without a signal it gives back when the run has ended, and not before
		stop()
		if err == nil {
			for i := range outputs {
				outputs[i].take(&all[split+i])
			}
		}
		run.err = byContext(ctx, err)
		run.mutex.Lock()
		run.over = true
		run.mutex.Unlock()
		release()
		s.mutex.RUnlock()
		close(run.done)
	}()
	return run, nil
}

// Done is closed when the run has ended.
func (r *Run) Done() <-chan struct{} { return r.done }

// Wait waits for the end of the run. The outputs that were given to Submit then have the results' shapes, and are given again.
func (r *Run) Wait() ([]Tensor, error) {
	<-r.done
	return r.outputs, r.err
}

// WaitContext is Wait that ends with the context, whose error is then found in QR-R0019 or QR-R0020. The run goes on, and has its slices, until Done is closed.
func (r *Run) WaitContext(ctx context.Context) ([]Tensor, error) {
	select {
	case <-r.done:
		return r.outputs, r.err
	default:
	}
	select {
	case <-r.done:
		return r.outputs, r.err
	case <-ctx.Done():
		return nil, waitingEnded(ctx.Err())
	}
}

func waitingEnded(cause error) error {
	made := ended(cause, nil).(*Error)
	made.ID, made.Message = "QR-R0019", "the waiting ended before the run" // as the library has them
	if made.Code == DeadlineExceeded {
		made.ID = "QR-R0020"
	}
	return made
}

// Abort has the run end with the code Cancelled as soon as it can; one that has ended is left alone.
func (r *Run) Abort() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.over { // so the session is there: Close waits for the run
		C.qr_session_abort(r.session.pointer, r.ticket)
	}
}
