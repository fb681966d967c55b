//! Storage whose places are used again, with a generation that tells an old tenant from a new one.

/// A name for a tenant of `Slots`; worthless once the tenant has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    pub(crate) slot: u32,
    generation: u32,
}

impl Id {
    /// Both halves in one number, for the key of a socket.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Tenants by slot. The slot freed last is given out first, so memory follows the most tenants at
/// one time, never how many there were.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slots<T> {
    #[inline]
    pub(crate) fn insert(&mut self, tenant: T) -> Id {
        self.len += 1;
        match self.free.pop() {
            Some(slot) => {
                let place = &mut self.slots[slot as usize];
                place.1 = Some(tenant);
                Id { slot, generation: place.0 }
            }
            None => {
                self.slots.push((0, Some(tenant)));
                Id { slot: (self.slots.len() - 1) as u32, generation: 0 }
            }
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: Id) -> Option<T> {
        let place = self.slots.get_mut(id.slot as usize).filter(|place| place.0 == id.generation)?;
        let tenant = place.1.take()?;
        place.0 = place.0.wrapping_add(1);
        self.free.push(id.slot);
        self.len -= 1;
        Some(tenant)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.slots.get_mut(id.slot as usize).filter(|place| place.0 == id.generation)?.1.as_mut()
    }

    /// The tenant that holds `slot` now.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.1.as_ref()
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)?.1.as_mut()
    }

    /// The name of the tenant that holds `slot` now.
    #[inline]
    pub(crate) fn id(&self, slot: u32) -> Option<Id> {
        let (generation, tenant) = self.slots.get(slot as usize)?;
        tenant.as_ref().map(|_| Id { slot, generation: *generation })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The names of all tenants, by slot.
    pub(crate) fn ids(&self) -> Vec<Id> {
        (0..self.slots.len() as u32).filter_map(|slot| self.id(slot)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_worthless_after_its_tenant_left() {
        let mut slots = Slots::default();
        let first = slots.insert('a');
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b');
        assert_eq!((second.slot, slots.len()), (first.slot, 1));
        assert_eq!((slots.remove(first), slots.get_mut(first)), (None, None));
        assert_eq!(slots.get_mut(Id::from_bits(second.to_bits())), Some(&mut 'b'));
    }
}
