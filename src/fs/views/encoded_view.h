#pragma once
// The encoded views: chunks as they are stored, with their codecs in .zarray or zarr.json. Where the codecs of the
// source are Zarr's, stored bytes go through untouched, both ways (in a gzip member instead of a zlib stream for Zarr
// v3); else a chunk is decoded and encoded on its way. Thread-safe.
//
// A chunk that is written here is a staged file until it is closed. It is decoded then, and becomes an edit like any
// other, which all views show; its encoded bytes go with it and are stored as they are.
//
// In the view encoded3 the chunk files of a sharded variable are its shards, byte for byte. A shard that is written
// here is stored when it is closed, in place of all chunks in it.

#include <sys/stat.h>

#include <memory>
#include <optional>

#include "fs/context/inode_attributes.h"
#include "fs/context/mount_context.h"
#include "fs/views/coherence_monitor.h"
#include "fs/views/encoded_forms.h"
#include "fs/views/filter_control.h"

namespace codecfs::fs {

class EncodedView {
 public:
  EncodedView(MountContext& mount, EncodedForms& forms, CoherenceMonitor& coherence, InodeAttributes& inodes,
              FilterControl& filters)
      : mount_(mount), forms_(forms), coherence_(coherence), inodes_(inodes), filters_(filters) {}

  /// Of a chunk's file. ENOENT if the view does not show it.
  Result<struct stat> attributes(const Node& node, const VariableViewPtr& view, uint64_t number);
  /// The content of a chunk's file.
  Result<ChunkPtr> content(const Node& node, const ChunkPlace& chunk);
  /// The size of a chunk's file in bytes, if its bytes are those that are stored.
  std::optional<uint64_t> passed_bytes(const Node& node, const ChunkPlace& chunk);
  /// Opens the file of the source that has the same bytes as a chunk's file; none if there is no such file.
  Result<std::optional<UniqueFd>> open_passed(const Node& node, const ChunkPlace& chunk);
  // Functions for shards (ViewForm::shows_shards()). What was written in other views is stored first.

  /// ENOENT.
  Result<struct stat> shard_attributes(const Node& node, const Variable& variable, uint64_t shard);
  /// ENOENT.
  Result<std::shared_ptr<const ContentReader>> open_shard(const Node& node, uint64_t shard);
  /// Replaces a shard with all chunks in it; none: removes it. EINVAL if the bytes are no shard of the variable.
  Result<> put_shard(const Node& node, const ChunkPlace& shard, std::optional<Bytes> bytes);

  /// The content, ahead of the read that is expected next; null if none is needed.
  ChunkPtr fetch(const Node& node, const ChunkPlace& chunk);
  /// Stores the content of a whole chunk file. EINVAL if the pipeline cannot decode it.
  Result<> put(const Node& node, const ChunkPlace& chunk, Bytes bytes, const Cancelled& cancelled);

 private:
  Result<ChunkPtr> made_content(const Node& node, const ChunkPlace& chunk);
  Result<ChunkPtr> passed_on(const ChunkPlace& chunk, const EncodedForm& form);
  static Result<ChunkPtr> file_of(const EncodedForm& form, const std::shared_ptr<const Buffer>& stored);
  Result<ChunkPtr> converted(const Node& node, const ChunkPlace& chunk, const EncodedForm& form);
  Result<Buffer> convert(const ChunkPlace& chunk, const EncodedForm& form);

  MountContext& mount_;
  EncodedForms& forms_;
  CoherenceMonitor& coherence_;
  InodeAttributes& inodes_;
  FilterControl& filters_;
};

}  // namespace codecfs::fs
