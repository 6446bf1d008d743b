// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"unsafe"

	"quarry.dev/quarry/internal/inside"
)

func init() {
	inside.Retain = func(r any) (inside.Core, error) { return r.(*Runtime).retain() }
	inside.Check = func(status unsafe.Pointer) error { return check((*C.qr_status)(status)) }
	inside.WithSource = func(source any, work func(unsafe.Pointer) error) error {
		return source.(Source).with(func(from *C.qr_model_source) error { return work(unsafe.Pointer(from)) })
	}
	inside.WithTarget = func(target any, work func(unsafe.Pointer) error) error {
		return target.(Target).with(func(to *C.qr_target) error { return work(unsafe.Pointer(to)) })
	}
	inside.WithInputs = func(infos, tensors any, work func(unsafe.Pointer) error) error {
		return withInputs(infos.([]TensorInfo), tensors.([]Tensor), work)
	}
	inside.WithSession = func(session any, work func(inside.Core, unsafe.Pointer) error) error {
		s := session.(*Session)
		if s == nil {
			return check(C.qr_session_clone(nil, nil, nil)) // the library says what that is
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.pointer == nil {
			return check(C.qr_session_clone(nil, nil, nil))
		}
		return work(insideCore{s.core.retain()}, unsafe.Pointer(s.pointer))
	}
	inside.State = func(c inside.Core, state unsafe.Pointer) any {
		return newState(c.(insideCore).core, (*C.qr_state)(state))
	}
	inside.Infos = func(count uint64, ask inside.Ask) (any, error) {
		return infosOf(C.uint64_t(count), func(i C.uint64_t, info *C.qr_tensor_info) *C.qr_status {
			return (*C.qr_status)(ask(uint64(i), unsafe.Pointer(info)))
		})
	}
}

func (r *Runtime) retain() (inside.Core, error) {
	if r == nil {
		return nil, check(C.qr_runtime_scan(nil, nil)) // the library says what that is
	}
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if r.core == nil {
		return nil, check(C.qr_runtime_scan(nil, nil))
	}
	return insideCore{r.core.retain()}, nil
}

type insideCore struct{ core *core }

func (c insideCore) Runtime() unsafe.Pointer { return unsafe.Pointer(c.core.pointer) }

func (c insideCore) Release() { c.core.release() }

func (c insideCore) Called(ctx context.Context, work func(unsafe.Pointer) unsafe.Pointer) error {
	return called(ctx, c.core.pointer, func(call *C.qr_call_options) *C.qr_status { return (*C.qr_status)(work(unsafe.Pointer(call))) })
}

// withInputs calls work with an array of pointers to tensors, which are lent for the call.
func withInputs(infos []TensorInfo, inputs []Tensor, work func(unsafe.Pointer) error) error {
	if len(inputs) != len(infos) {
		return refused("found %d inputs, expected %d", len(inputs), len(infos))
	}
	room := C.calloc(C.size_t(len(inputs)+1), C.sizeof_qr_tensor+C.size_t(unsafe.Sizeof(room{}.places)))
	defer C.free(room)
	tensors := unsafe.Slice((*C.qr_tensor)(room), len(inputs))
	places := unsafe.Slice((**C.qr_tensor)(unsafe.Add(room, (len(inputs)+1)*C.sizeof_qr_tensor)), len(inputs)+1)
	var lent lent
	defer lent.release()
	for i := range inputs {
		tensors[i].struct_size = C.sizeof_qr_tensor
		places[i] = &tensors[i]
		if err := setInput(&tensors[i], infos[i].Name, &inputs[i], &lent); err != nil {
			return err
		}
	}
	return work(unsafe.Pointer(&places[0]))
}
