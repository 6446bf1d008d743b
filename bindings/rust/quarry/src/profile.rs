// SPDX-License-Identifier: Apache-2.0
//! What calls did and how long it took.
use crate::error::{Result, check, handle, string};
use crate::runtime::Runtime;
use crate::target::Target;
use quarry_sys as sys;
use std::cell::Cell;
use std::marker::PhantomData;

handle!(sys::qr_profile, sys::qr_profile_destroy);

/// Receives the events of the calls that it is given to. Of one thread at a time, so not `Sync`.
#[derive(Debug)]
pub struct Profile(Handle, PhantomData<Cell<()>>);

// SAFETY: [exclusive:profile]: from any thread, one call at a time.
unsafe impl Send for Profile {}

/// What was counted in an event.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counter {
    pub name: String,
    pub unit: String,
    pub value: u64,
}

/// One event; docs/guide.md ("Profiles") has what is in it.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the fields of qr_profile_event
#[non_exhaustive]
pub struct Event {
    pub id: u64,
    pub parent: u64,
    pub level: u32,
    pub clock: u32,
    pub thread: u32,
    pub begin: u64,
    pub end: u64,
    pub node: i64,
    pub name: String,
    pub kind: String,
    pub op: String,
    pub counters: Vec<Counter>,
    pub attributes: Vec<(String, String)>,
}

impl Profile {
    /// An empty profile.
    pub fn new(runtime: &Runtime) -> Result<Self> {
        // SAFETY: [thread-safe]
        Handle::make(|out| unsafe { sys::qr_profile_create(runtime.get(), out) }).map(|made| Self(made, PhantomData))
    }
    #[inline]
    pub(crate) fn get(&mut self) -> *mut sys::qr_profile {
        self.0.get()
    }
    /// The number of events so far.
    pub fn len(&self) -> usize {
        // SAFETY: not Sync, so one call at a time.
        unsafe { sys::qr_profile_event_count(self.0.get()) as usize }
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Events that could not be kept.
    pub fn lost(&self) -> u64 {
        // SAFETY: as len().
        unsafe { sys::qr_profile_lost_count(self.0.get()) }
    }
    /// All events: a call before its parts.
    pub fn events(&self) -> Result<Vec<Event>> {
        (0..self.len() as u64)
            .map(|index| {
                let mut event = sys::qr_profile_event::INIT;
                // SAFETY: strings and arrays live until the profile is given to another call, which needs &mut self.
                unsafe {
                    check(sys::qr_profile_event_at(self.0.get(), index, &mut event))?;
                    let counters = (0..event.counter_count as usize).map(|i| &*event.counters.add(i));
                    let attributes = (0..event.attribute_count as usize).map(|i| &*event.attributes.add(i));
                    Ok(Event {
                        id: event.id,
                        parent: event.parent,
                        level: event.level,
                        clock: event.clock,
                        thread: event.thread,
                        begin: event.begin,
                        end: event.end,
                        node: event.node,
                        name: string(event.name),
                        kind: string(event.kind),
                        op: string(event.op),
                        counters: counters.map(|c| Counter { name: string(c.name), unit: string(c.unit), value: c.value }).collect(),
                        attributes: attributes.map(|a| (string(a.key), string(a.value))).collect(),
                    })
                }
            })
            .collect()
    }
    /// The events as a file's content: "csv", or "chrome" for Perfetto.
    pub fn export(&self, format: &str) -> Result<String> {
        let mut made = Vec::new();
        self.export_to(format, Target::memory(&mut made))?;
        Ok(String::from_utf8_lossy(&made).into_owned())
    }
    /// The same anywhere.
    pub fn export_to(&self, format: &str, target: Target<'_>) -> Result<()> {
        // SAFETY: as len(); everything lives until the call returns.
        target.with(|to| check(unsafe { sys::qr_profile_export(self.0.get(), sys::qr_string::new(format), to) }))
    }
    /// Forgets all events.
    pub fn clear(&mut self) {
        // SAFETY: ours alone.
        unsafe { sys::qr_profile_clear(self.0.get()) }
    }
}
