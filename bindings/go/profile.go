// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
import "C"

import (
	"iter"
	"unsafe"
)

// Profile is what runs did and how long it took, as a tree of events; profile.h lists their names.
type Profile struct {
	object[*C.qr_profile]
}

// Event is a call or a part of one.
type Event struct {
	ID, Parent     uint64 // Parent 0: none
	Name, Kind, Op string
	Begin, End     uint64 // nanoseconds, or cycles of the device: Clock
	Clock, Thread  int
	Node           int // index of the source node; -1: no node's
	Counters       []Counter
	Attributes     map[string]string // "kernel", "shapes", "fused", "graph"
}

// Counter is what was counted in an event.
type Counter struct {
	Name, Unit string
	Value      uint64
}

// NewProfile makes an empty profile, for runs of sessions of the same runtime.
func (s *Session) NewProfile() (*Profile, error) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	var pointer *C.qr_profile
	if err := check(C.qr_profile_create(s.core.pointer, &pointer)); err != nil {
		return nil, err
	}
	made := new(Profile)
	made.own(pointer, s.core, func(pointer *C.qr_profile) { C.qr_profile_destroy(pointer) })
	return made, nil
}

// Clear forgets all events.
func (p *Profile) Clear() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	C.qr_profile_clear(p.pointer)
}

// Events are all of them: a call before its parts.
func (p *Profile) Events() ([]Event, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	count := C.qr_profile_event_count(p.pointer)
	events := make([]Event, 0, count)
	for i := C.uint64_t(0); i < count; i++ {
		c := C.qr_profile_event{struct_size: C.sizeof_qr_profile_event}
		if err := check(C.qr_profile_event_at(p.pointer, i, &c)); err != nil {
			return nil, err
		}
		event := Event{ID: uint64(c.id), Parent: uint64(c.parent), Name: goString(c.name), Kind: goString(c.kind), Op: goString(c.op),
			Begin: uint64(c.begin), End: uint64(c.end), Clock: int(c.clock), Thread: int(c.thread), Node: int(c.node), Attributes: map[string]string{}}
		for _, counter := range unsafe.Slice(c.counters, c.counter_count) {
			event.Counters = append(event.Counters, Counter{goString(counter.name), goString(counter.unit), uint64(counter.value)})
		}
		for _, attribute := range unsafe.Slice(c.attributes, c.attribute_count) {
			event.Attributes[goString(attribute.key)] = goString(attribute.value)
		}
		events = append(events, event)
	}
	return events, nil
}

// All ranges over the events, a call before its parts; what was recorded when it begins.
func (p *Profile) All() iter.Seq2[int, Event] {
	return func(yield func(int, Event) bool) {
		events, err := p.Events()
		if err != nil {
			return
		}
		for i, event := range events {
			if !yield(i, event) {
				return
			}
		}
	}
}

// Export gives the events as a file's content: "chrome" (for Perfetto and chrome://tracing) or "csv".
func (p *Profile) Export(format string) (string, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var text []byte
	err := p.exportTo(format, Target{Memory: &text})
	return string(text), err
}

// ExportTo writes it anywhere.
func (p *Profile) ExportTo(format string, target Target) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.exportTo(format, target)
}

func (p *Profile) exportTo(format string, target Target) error {
	return target.with(func(to *C.qr_target) error {
		return withText(format, func(format C.qr_string) *C.qr_status { return C.qr_profile_export(p.pointer, format, to) })
	})
}
