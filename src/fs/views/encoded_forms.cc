#include "fs/views/encoded_forms.h"

#include <optional>
#include <utility>

#include "backends/api/newer_format.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "filters/core/zarr3_chain.h"
#include "fs/nodes/chunk_names.h"
#include "fs/nodes/metadata_files.h"
#include "fs/nodes/zarr3_files.h"
#include "model/json.h"

namespace codecfs::fs {

bool are_equal(std::span<const FilterStage> one, std::span<const FilterStage> other) {
  return print_json(filters::print_codecs(one)) == print_json(filters::print_codecs(other));
}
Result<EncodedFormPtr> EncodedForms::of(const Node& node) {
  const Ino key = conversion_key(node.view, node.key());
  if (EncodedFormPtr known = forms_.get(key)) return known;
  const uint64_t changes = mount_.dataset.changes();
  CODECFS_ASSIGN(const Place now, mount_.tree.nodes.at(node.ino()));  // it may have been moved
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  EncodedForm made = make(node.view, now.node->path, *view->facts);
  made.stored_codecs = view->codecs;
  const auto form = std::make_shared<const EncodedForm>(std::move(made));
  forms_.put_if(key, form, form->zarray->size(), [&] { return mount_.dataset.changes() == changes; });
  return form;
}

Result<Text> EncodedForms::zmetadata_of(const Node& node) {
  if (!node.form().is_encoded) return mount_.dataset.zmetadata(node.object);
  if (Text known = zmetadata_.get(node.ino())) return known;
  const uint64_t changes = mount_.dataset.changes();
  CODECFS_ASSIGN(const Text text,
                 mount_.dataset.consolidate(node.object, [&](const std::string& path, const Variable& facts) {
                   return zarray_json(facts, make(node.view, node.path + "/" + path, facts).chain);
                 }));
  zmetadata_.put_if(node.ino(), text, text->size(), [&] { return mount_.dataset.changes() == changes; });
  return text;
}

Result<Text> EncodedForms::zarr_json_of_group(const Node& node) {
  if (Text known = zmetadata_.get(node.ino())) return known;
  const uint64_t changes = mount_.dataset.changes();
  Result<std::vector<Attribute>> attributes = mount_.dataset.source().group_attributes(node.object);
  if (!attributes && !is_unreadable(attributes.error().code)) return pass_on(attributes);
  if (!mount_.options.consolidates_groups && !node.is_root())
    return std::make_shared<const std::string>(file_text(zarr3_group_json(attributes)));
  CODECFS_ASSIGN(const std::string below,
                 mount_.dataset.consolidate3(node.object, [&](const std::string& path, const Variable& variable) {
                   return zarr_json(node.view, node.path + "/" + path, variable);
                 }));
  const Text text = std::make_shared<const std::string>(zarr3_group_text(attributes, below));
  zmetadata_.put_if(node.ino(), text, text->size(), [&] { return mount_.dataset.changes() == changes; });
  return text;
}

Result<Json> EncodedForms::zarr_json(View view, const std::string& path, const Variable& shown) {
  std::optional<Variable> distinct;
  if (!mount_.dataset.source().is_zarr3() && has_repeated_names(shown)) make_names_distinct(distinct.emplace(shown));
  const Variable& described = distinct ? *distinct : shown;
  const ChunkKeys keys = form_of(view).format().keys_of(described);
  if (!form_of(view).is_encoded) return zarr3_array_json(described, {}, keys);
  if (form_of(view).shows_shards(described)) return zarr3_sharded_json(described, keys);
  return zarr3_array_json(described, make(view, path, described).chain, keys);
}

void EncodedForms::forget(const Node& variable) {
  for (const ChunkKey form : {ChunkKey{0}, kZarr3Form}) forms_.erase(variable.key() | form);
}

Result<Buffer> EncodedForm::file_of_stored(Buffer stored) const {
  if (!gzip_size) return stored;
  return filters::gzip_of_zlib(stored.bytes(), *gzip_size);
}

Result<Buffer> EncodedForm::stored_of_file(Bytes file) const {
  return gzip_size ? filters::zlib_of_gzip(file, *gzip_size) : Buffer::copy_of(file);
}

filters::Zarr3Chain EncodedForms::chain_of(View view, const Variable& facts,
                                           std::span<const FilterStage> stages) const {
  return form_of(view).format().chain_of(stages, facts,
                                         {.netcdf = mount_.options.for_netcdf, .portable = mount_.options.portable});
}

Result<> EncodedForms::check_ruled(View view, const std::string& path, const Variable& facts) {
  const std::optional<std::vector<FilterStage>> wanted = rules_.pipeline_for(path, facts);
  if (!wanted) return {};
  if (form_of(view).shows_shards(facts)) {
    const filters::Zarr3Chain chain = chain_of(view, facts, *wanted);
    if (filters::are_equal_in_zarr3(facts.filters, chain.stages, facts.type.size)) return {};
    return fail(EOPNOTSUPP, "{}: its shards are copied as they are stored; change their codecs with codecfs recode",
                path);
  }
  const EncodedForm form = make(view, path, facts);
  if (form.unusable) return fail(EINVAL, "{}: {}", path, form.unusable->reason);
  if (mount_.options.portable || form.chain.size() == wanted->size()) return {};
  return check_crossing(view, path, facts, *wanted);
}

Result<> EncodedForms::check_crossing(View view, const std::string& path, const Variable& facts,
                                      std::span<const FilterStage> chain) const {
  if (chain.empty() || !chain_of(view, facts, chain).stages.empty()) return {};
  for (const FilterStage& stage : chain) {
    if (!chain_of(view, facts, std::span(&stage, 1)).stages.empty()) continue;
    const filters::FilterPtr filter = filters::find_for(stage);
    const std::string name = filter != nullptr ? filter->name : fmt::format("filter {}", stage.id);
    const MetadataFormat& format = form_of(view).format();
    const bool is_nczarr = mount_.options.for_netcdf && format.version == 2;
    const std::string_view readers = is_nczarr ? "readers of NCZarr" : format.readers;
    return fail(EOPNOTSUPP, "{}: {} has no codec for its elements that {} have", path, name, readers);
  }
  return fail(EOPNOTSUPP, "{}: its filters have no codecs in Zarr in this order", path);
}

Result<> EncodedForms::check_for_hdf5(View view, const std::string& path, const Variable& facts) const {
  filters::Zarr3Chain chain = chain_of(view, facts, facts.filters);
  const Result<> whole = filters::leave_out_for_hdf5(chain, filters::shape_of_chunk(facts));
  return whole ? whole : fail(whole.error().code, "{}: {}", path, whole.error().reason);
}

EncodedForm EncodedForms::make(View view, const std::string& path, const Variable& facts) {
  const filters::ChunkShape shape = filters::shape_of_chunk(facts);
  EncodedForm form;
  filters::Zarr3Chain shown = chain_of(view, facts, facts.filters);
  if (mount_.options.for_hdf5) (void)filters::leave_out_for_hdf5(shown, shape);
  form.as_stored = shown.same_bytes;
  // Shards are shown as they are stored, also while a rule of the mount waits to be applied.
  const bool is_ruled = !form_of(view).shows_shards(facts);
  const Node* node = mount_.tree.nodes.find(path);
  if (is_ruled && (node == nullptr || !mount_.tree.overlay.state_of(*node).rule_applied)) {
    if (const auto wanted = rules_.pipeline_for(path, facts)) {
      filters::Zarr3Chain ruled = chain_of(view, facts, *wanted);
      if (!are_equal(ruled.stages, shown.stages)) {
        form.as_stored = false;
        shown = std::move(ruled);
      }
    }
  }
  if (node != nullptr) {
    if (auto written = mount_.tree.overlay.state_of(*node).codecs;
        written && written->format == &form_of(view).format()) {
      form.as_stored = false;
      shown.stages = std::move(written->chain);
    }
  }
  form.chain = std::move(shown.stages);
  if (form.as_stored) form.gzip_size = shown.gzip_size;
  auto pipeline = filters::Pipeline::make(form.chain, shape);
  if (pipeline)
    form.pipeline = std::move(*pipeline);
  else
    form.unusable = std::move(pipeline.error());
  form.zarray = std::make_shared<const std::string>(file_text(zarray_json(facts, form.chain)));
  return form;
}

}  // namespace codecfs::fs
