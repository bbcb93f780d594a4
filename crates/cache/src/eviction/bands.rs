//! Bands of priority: each has its own order, and the victim comes from the lowest band that has a candidate
//! (Differentiated Storage Services, SOSP 2011, §3.2.2).

use super::{Eviction, EvictionKind, Units, Victim};
use crate::shelf::{Band, Shelf};
use nitro_units::{ExtentKey, WeuId};

/// An order of eviction for each band that is distinguished.
#[derive(Debug)]
pub(crate) struct Bands {
    /// From the lowest band to the highest.
    orders: Vec<Box<dyn Eviction>>,
    /// For each unit, the index of its order in `orders`.
    of: Vec<u8>,
    /// The settings from which further orders are created; `None`: the policy is the caller's, and only one order is
    /// possible.
    made: Option<Made>,
}

#[derive(Debug)]
struct Made {
    kind: EvictionKind,
    extents: u64,
    seed: u64,
}

impl Bands {
    /// One order for all `units` units, which hold `extents` without compression, created by `kind`; further ones are
    /// created by it, too.
    pub(crate) fn new(kind: EvictionKind, units: u32, extents: u64, seed: u64) -> Self {
        let first = kind.build(units, extents, seed);
        Self { made: Some(Made { kind, extents, seed }), ..Self::one(first, units) }
    }

    /// One order for all `units` units; bands are not distinguished.
    pub(crate) fn one(order: Box<dyn Eviction>, units: u32) -> Self {
        Self { orders: vec![order], of: vec![0; units as usize], made: None }
    }

    /// Sets the number of bands, if there is one band so far and `count` is larger; returns the number. Units stay in
    /// their order, which becomes that of the band `normal`.
    pub(crate) fn tell_apart(&mut self, count: usize, normal: Band) -> usize {
        let Some(made) = self.made.as_ref().filter(|_| self.orders.len() == 1 && count > 1) else {
            return self.orders.len();
        };
        let units = self.of.len() as u32;
        let normal = normal.index();
        for place in 0..count {
            if place != normal {
                self.orders.insert(place, made.kind.build(units, made.extents, made.seed));
            }
        }
        self.of.fill(normal as u8);
        count
    }

    fn order(&mut self, weu: WeuId) -> &mut dyn Eviction {
        let place = usize::from(self.of[weu.0 as usize]).min(self.orders.len() - 1);
        self.orders[place].as_mut()
    }

    fn put(&mut self, weu: WeuId, band: Band) -> &mut dyn Eviction {
        self.of[weu.0 as usize] = band.index().min(self.orders.len() - 1) as u8;
        self.order(weu)
    }

    /// See [`Eviction::opened`].
    pub(crate) fn opened(&mut self, weu: WeuId, shelf: Shelf) {
        self.put(weu, shelf.band).opened(weu, shelf.lane);
    }

    /// See [`Eviction::sealed`].
    pub(crate) fn sealed(&mut self, weu: WeuId) {
        self.order(weu).sealed(weu);
    }

    /// See [`Eviction::touched`].
    pub(crate) fn touched(&mut self, weu: WeuId) {
        self.order(weu).touched(weu);
    }

    /// See [`Eviction::looked_up`].
    pub(crate) fn looked_up(&mut self, key: ExtentKey, read: bool) {
        self.orders.iter_mut().for_each(|order| order.looked_up(key, read));
    }

    /// See [`Eviction::live_changed`].
    pub(crate) fn live_changed(&mut self, weu: WeuId, extents: u32, entries: u32) {
        self.order(weu).live_changed(weu, extents, entries);
    }

    /// See [`Eviction::enter`].
    pub(crate) fn enter(&mut self, weu: WeuId) {
        self.order(weu).enter(weu);
    }

    /// See [`Eviction::restored`].
    pub(crate) fn restored(&mut self, weu: WeuId, band: Band) {
        self.put(weu, band).restored(weu);
    }

    /// See [`Eviction::leave`].
    pub(crate) fn leave(&mut self, weu: WeuId) {
        self.order(weu).leave(weu);
    }

    /// See [`Eviction::emptied`].
    pub(crate) fn emptied(&mut self, weu: WeuId) {
        self.order(weu).emptied(weu);
    }

    /// See [`Eviction::victim`]: the victim of the lowest band that has one.
    pub(crate) fn victim(&mut self, units: &dyn Units) -> Option<Victim> {
        self.orders.iter_mut().find_map(|order| order.victim(units))
    }

    /// See [`Eviction::grow`].
    pub(crate) fn grow(&mut self, count: u32) {
        self.of.resize(self.of.len().max(count as usize), 0);
        self.orders.iter_mut().for_each(|order| order.grow(count));
    }

    /// RAM in bytes.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.orders.iter().map(|order| order.ram_bytes()).sum::<usize>() + self.of.capacity()
    }
}
