// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
import "C"

import "context"

// Adapter is low-rank updates of weights (LoRA) that a session's runs compute with: Session.OpenAdapter, Session.SetAdapter. It may outlive the
// session, and serve several.
type Adapter struct {
	object[*C.qr_adapter]
}

// AdapterOptions says how an adapter is read.
type AdapterOptions struct {
	Alpha    float32 // lora_alpha; 0: as adapter_config.json beside the file, or its metadata, say
	Strength float32 // scales the adapter once more; 0: 1
}

// OpenAdapter reads an adapter (safetensors or ONNX) for this session, its clones, and others of the same weights (option "adapter.targets").
func (s *Session) OpenAdapter(ctx context.Context, source Source, options AdapterOptions) (*Adapter, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	how := C.qr_adapter_options{struct_size: C.sizeof_qr_adapter_options, alpha: C.float(options.Alpha), strength: C.float(options.Strength)}
	if options.Strength == 0 {
		how.strength = 1
	}
	var pointer *C.qr_adapter
	err := source.with(func(from *C.qr_model_source) error {
		return called(ctx, s.core.pointer, func(call *C.qr_call_options) *C.qr_status {
			return C.qr_adapter_open(s.pointer, from, &how, call, &pointer)
		})
	})
	if err != nil {
		return nil, err
	}
	made := new(Adapter)
	made.own(pointer, s.core, func(pointer *C.qr_adapter) { C.qr_adapter_destroy(pointer) })
	return made, nil
}

// SetAdapter has the runs from now on compute with an adapter; nil: with none.
func (s *Session) SetAdapter(adapter *Adapter) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if adapter == nil {
		return check(C.qr_session_set_adapter(s.pointer, nil))
	}
	adapter.mutex.Lock()
	defer adapter.mutex.Unlock()
	return check(C.qr_session_set_adapter(s.pointer, adapter.pointer))
}
