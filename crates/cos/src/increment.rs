//! Increments: what makes a volume from another one. See [`format::increment`](crate::format::increment).
//!
//! The content of a volume is recognised by the fingerprint of its recipe's root, which does not depend on the store: by it the
//! base is found, and the result is checked as a whole.

use crate::chunks::compress;
use crate::format::increment::{IncrementHead, IncrementPart, IncrementWriter, content_of};
use crate::format::record::{Kind, ObjectRecord};
use crate::namespace::check_name;
use crate::object::Object;
use crate::{Error, Store, Volume};
use bytes::Bytes;
use nitro_port::Device;
use nitro_port::buf::is_zero;
use nitro_port::range_lock::ALL;
use std::sync::Arc;

impl<D: Device> Store<D> {
    /// What an increment from `base` to `name` consists of, besides the [differences](Self::visit_differences) of the two.
    ///
    /// # Errors
    /// [`Error::NoObject`]; [`Error::WrongKind`] unless both are volumes of the same size with chunks of the same size.
    pub async fn increment(&self, base: &str, name: &str) -> Result<IncrementHead, Error> {
        let (one, other) = (self.object(base).await?, self.object(name).await?);
        for object in [&one, &other] {
            self.flush_tree(object).await?;
        }
        let size = |object: &Object| object.state.lock().record.size_bytes;
        let is_similar = one.chunk_bytes == other.chunk_bytes && size(&one) == size(&other);
        for object in [&one, &other] {
            if object.kind == Kind::Stream || object.state.lock().record.incomplete || !is_similar {
                let why = "increments are of volumes with the same size and the same chunk size";
                return Err(Error::WrongKind { name: object.name(), kind: object.kind, why });
            }
        }
        let content = |object: &Object| content_of(object.state.lock().record.root);
        Ok(IncrementHead {
            chunk_bytes: one.chunk_bytes,
            size_bytes: size(&one),
            base: content(&one),
            content: content(&other),
            base_name: base.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl<D: Device> Store<D> {
    /// Creates a volume with the content of an increment's base, to apply the increment to it. It cannot be opened otherwise
    /// until [`finish_increment`](Self::finish_increment).
    ///
    /// # Errors
    /// [`Error::NoBase`] if no volume has that content; or as [`create_volume`](Self::create_volume).
    pub async fn begin_increment(
        self: &Arc<Self>,
        name: &str,
        head: &IncrementHead,
        created: u64,
    ) -> Result<Volume<D>, Error> {
        check_name(name)?;
        self.check_poison()?;
        // What is left of an import that was broken off begins anew.
        self.remove_object(name, |record| record.incomplete).await?;
        self.check_new(name).await?;
        let bases = self.roots().await?.into_iter().filter(|(_, root)| content_of(*root) == head.base);
        for (base, _) in bases {
            let Ok(base) = self.object(&base).await else { continue };
            self.make_room_for_objects().await?;
            let _mutating = self.mutating.shared(ALL).await;
            let record = {
                let state = base.state.lock();
                let is_base = !state.is_removed() && state.overlay.is_empty() && is_base(&state.record, head);
                is_base.then(|| state.record.clone())
            };
            let Some(record) = record else { continue };
            let record = |id| ObjectRecord {
                id,
                read_only: false,
                incomplete: true,
                in_directory: false,
                created,
                token: 0,
                imported_bytes: 0,
                name: name.to_owned(),
                ..record.clone()
            };
            return Ok(Volume::new(self, self.enter(record, name).await?));
        }
        Err(Error::NoBase(head.base_name.clone()))
    }

    /// Completes a volume to which a whole increment was applied. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it does not have the content that it should have; or as [`commit`](Self::commit).
    pub async fn finish_increment(&self, volume: &Volume<D>, head: &IncrementHead) -> Result<(), Error> {
        self.flush_tree(volume.object()).await?;
        if content_of(volume.object().state.lock().record.root) != head.content {
            let what = format!("the increment: what it makes of its base is not {:?}", head.name);
            return Err(Error::Damaged { what });
        }
        self.finish_import(volume).await
    }

    /// Encodes a part of an increment, compressed as the store compresses.
    pub fn encode_part(&self, writer: &mut IncrementWriter, offset: u64, data: &Bytes) -> Vec<u8> {
        let len = data.len() as u32;
        if is_zero(data) {
            return writer.part(offset, len, (nitro_port::codec::Encoding::Raw, &[]));
        }
        let (encoding, payload) = compress(self.superblock.compression, data);
        writer.part(offset, len, (encoding, &payload))
    }
}

fn is_base(record: &ObjectRecord, head: &IncrementHead) -> bool {
    let is_alike = (record.size_bytes, record.chunk_bytes) == (head.size_bytes, head.chunk_bytes);
    is_alike && record.kind == Kind::Volume && !record.incomplete && content_of(record.root) == head.base
}

impl<D: Device> Volume<D> {
    /// Applies a part of an increment.
    ///
    /// # Errors
    /// As [`write_range`](Self::write_range).
    pub async fn apply(&self, part: IncrementPart) -> Result<(), Error> {
        match part.data {
            Some(data) => self.write_range(part.offset, data).await,
            None => self.zero_range(part.offset, part.len.into()).await,
        }
    }
}
