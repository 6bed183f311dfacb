#pragma once
// How the encoded views show each variable: its pipeline of Zarr codecs, which a rule of the mount may replace, and the
// metadata texts that name it. Thread-safe.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "filters/core/gzip_frames.h"
#include "filters/core/pipeline.h"
#include "filters/core/zarr_chain.h"
#include "fs/context/mount_context.h"
#include "fs/views/mount_rules.h"

namespace codecfs::fs {

struct EncodedForm {
  std::vector<FilterStage> chain;             // the pipeline in .zarray or zarr.json, in the order of encoding
  Text stored_codecs;                         // VariableView::codecs of the stored pipeline that it was made for
  bool as_stored = false;                     // chunk files hold the stored bytes, unless a chunk has a filter mask
  std::optional<uint64_t> gzip_size;          // with as_stored: but in a gzip member that decodes to so many bytes
  std::optional<filters::Pipeline> pipeline;  // none: see `unusable`
  std::optional<Error> unusable;
  Text zarray;

  // With as_stored: the stored bytes as a chunk file, and back. EIO.
  [[nodiscard]] Result<Buffer> file_of_stored(Buffer stored) const;
  [[nodiscard]] Result<Buffer> stored_of_file(Bytes file) const;
  [[nodiscard]] uint64_t file_size(uint64_t stored) const { return gzip_size ? stored + filters::kGzipExtra : stored; }
};
using EncodedFormPtr = std::shared_ptr<const EncodedForm>;

/// The key of a chunk, or of its variable, for what depends on the form in which a view shows it.
inline ChunkKey conversion_key(View view, ChunkKey key) {
  return form_of(view).format().version == 3 ? key | kZarr3Form : key;
}

/// Whether two pipelines are the same to a Zarr reader.
bool are_equal(std::span<const FilterStage> one, std::span<const FilterStage> other);

class EncodedForms {
 public:
  EncodedForms(MountContext& mount, MountRules& rules) : mount_(mount), rules_(rules) {}

  Result<EncodedFormPtr> of(const Node& node);
  /// .zmetadata of a group, in the view of the node.
  Result<Text> zmetadata_of(const Node& node);
  /// zarr.json of a group in a view of Zarr v3, with the consolidated metadata of everything below.
  Result<Text> zarr_json_of_group(const Node& node);
  /// zarr.json of a variable in a view of Zarr v3. EOPNOTSUPP if Zarr v3 cannot describe it.
  Result<Json> zarr_json(View view, const std::string& path, const Variable& shown);

  /// Whether a view gives a variable the pipeline of its rule. EINVAL if no chunk can be encoded with that; EOPNOTSUPP
  /// if the view shows another one, because Zarr has no codecs for it, or shows shards as they are stored.
  Result<> check_ruled(View view, const std::string& path, const Variable& facts);

  /// Whether a view shows these filters, or all but some in a place that is wrong for numcodecs. EOPNOTSUPP with the
  /// first that has no codec in Zarr: the view shows no filters then.
  Result<> check_crossing(View view, const std::string& path, const Variable& facts,
                          std::span<const FilterStage> chain) const;

  /// EINVAL with the first codec that a view for HDF5 leaves out.
  Result<> check_for_hdf5(View view, const std::string& path, const Variable& facts) const;

  /// Must be called after the metadata of a variable, or of everything, has changed.
  void forget(const Node& variable);
  void forget_all() { forms_.clear(); }
  void forget_zmetadata() { zmetadata_.clear(); }

 private:
  [[nodiscard]] filters::Zarr3Chain chain_of(View view, const Variable& facts,
                                             std::span<const FilterStage> stages) const;
  [[nodiscard]] EncodedForm make(View view, const std::string& path, const Variable& facts);

  MountContext& mount_;
  MountRules& rules_;
  LruMap<Ino, EncodedForm> forms_{256, kMaxHeld};    // by conversion_key()
  LruMap<Ino, std::string> zmetadata_{8, kMaxHeld};  // by inode number of the group
};

}  // namespace codecfs::fs
