// SPDX-License-Identifier: Apache-2.0
//! Text of tokens as they come: what is certain is given, the rest is held back.
use std::sync::Arc;

use crate::error::Fault;

/// What stands for bytes that are no character, or not yet one.
const INCOMPLETE: char = '\u{fffd}';

pub struct TextStream {
    tokenizer: Arc<tokenizers::Tokenizer>,
    skips_special: bool,
    stops: Vec<String>,
    /// The last tokens: text depends on its neighbours (a blank before a word), so those of the piece before are decoded with the new ones.
    ids: Vec<u32>,
    /// How many of them have been given as text.
    given: usize,
    /// Text that is certain, but may begin a stop text.
    held: String,
    stopped: bool,
}

impl TextStream {
    pub fn new(tokenizer: Arc<tokenizers::Tokenizer>, skips_special: bool, stops: Vec<String>) -> TextStream {
        TextStream { tokenizer, skips_special, stops, ids: Vec::new(), given: 0, held: String::new(), stopped: false }
    }

    fn decoded(&self, ids: &[u32]) -> Result<String, Fault> {
        self.tokenizer.decode(ids, self.skips_special).map_err(|error| Fault::of_text("decode", &error))
    }

    /// The text that the tokens since the last piece add; nothing while a character is incomplete, unless `at_end`.
    fn fresh(&mut self, at_end: bool) -> Result<String, Fault> {
        let (before, all) = (self.decoded(&self.ids[..self.given])?, self.decoded(&self.ids)?);
        if all.len() <= before.len() || !all.is_char_boundary(before.len()) || (all.ends_with(INCOMPLETE) && !at_end) {
            return Ok(String::new());
        }
        let text = all[before.len()..].to_string();
        self.ids.drain(..self.given);
        self.given = self.ids.len();
        Ok(text)
    }

    /// A token more: the text that is certain, and whether a stop text has come.
    pub fn push(&mut self, id: u32) -> Result<(String, bool), Fault> {
        if self.stopped {
            return Ok((String::new(), true));
        }
        self.ids.push(id);
        let text = self.fresh(false)?;
        self.held.push_str(&text);
        if let Some(at) = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.held.truncate(at);
            self.stopped = true;
            return Ok((std::mem::take(&mut self.held), true));
        }
        let rest = self.held.split_off(self.held.len() - self.begun());
        Ok((std::mem::replace(&mut self.held, rest), false))
    }

    /// Bytes at the end of what is held that may begin a stop text.
    fn begun(&self) -> usize {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0).saturating_sub(1);
        (1..=longest.min(self.held.len()))
            .rev()
            .find(|&size| {
                let at = self.held.len() - size;
                self.held.is_char_boundary(at) && self.stops.iter().any(|stop| stop.starts_with(&self.held[at..]))
            })
            .unwrap_or(0)
    }

    /// No token follows: all that was held back.
    pub fn finish(&mut self) -> Result<String, Fault> {
        let mut text = std::mem::take(&mut self.held);
        if !self.stopped {
            text.push_str(&self.fresh(true)?);
        }
        self.ids.clear();
        self.given = 0;
        self.stopped = false;
        Ok(text)
    }
}
