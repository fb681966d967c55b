//! A table of connections whose tokens do not outlive them.

/// Names an entry of a [`Slab`]. Once the entry is removed the token names nothing, though its
/// place may be taken by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    place: u32,
    generation: u32,
}

impl Token {
    /// As one number; below 2^64 − 2^32 for the first 2^32 − 1 uses of a place.
    pub(crate) const fn as_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }

    pub(crate) const fn from_u64(bits: u64) -> Self {
        Self { place: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Entries in places that are used again.
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

struct Place<T> {
    generation: u32,
    entry: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, entry: T) -> Token {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, entry: None });
            (self.places.len() - 1) as u32
        });
        let slot = &mut self.places[place as usize];
        slot.entry = Some(entry);
        Token { place, generation: slot.generation }
    }

    pub(crate) fn get(&self, token: Token) -> Option<&T> {
        let slot = self.places.get(token.place as usize)?;
        slot.entry.as_ref().filter(|_| slot.generation == token.generation)
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let slot = self.places.get_mut(token.place as usize)?;
        slot.entry.as_mut().filter(|_| slot.generation == token.generation)
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<T> {
        let slot = self.places.get_mut(token.place as usize)?;
        if slot.generation != token.generation {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(token.place);
        Some(entry)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_nothing_once_its_entry_is_removed() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.remove(a), None);
        let c = slab.insert('c');
        assert_eq!((c.place, slab.get(a), slab.get(c), slab.get(b)), (a.place, None, Some(&'c'), Some(&'b')));
        assert_eq!(Token::from_u64(c.as_u64()), c);
        assert!(!slab.is_empty());
        slab.remove(b);
        slab.remove(c);
        assert!(slab.is_empty());
    }
}
