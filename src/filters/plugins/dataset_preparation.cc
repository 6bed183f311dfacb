#include "filters/plugins/dataset_preparation.h"

#include <hdf5.h>

#include <array>

namespace codecfs::filters {
namespace {

template <herr_t (*close)(hid_t)>
class Handle {
 public:
  explicit Handle(hid_t id) : id_(id) {}
  ~Handle() {
    if (id_ >= 0) close(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  [[nodiscard]] hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  const hid_t id_;
};

constexpr size_t kMaxParameters = 65536;

Result<std::vector<uint32_t>> parameters_in(hid_t properties, uint32_t filter, unsigned& flags) {
  std::vector<unsigned> values(64);
  // The first call returns the number of parameters, the second all of them.
  for (int round = 0; round < 2; ++round) {
    size_t count = values.size();
    if (H5Pget_filter_by_id2(properties, static_cast<H5Z_filter_t>(filter), &flags, &count, values.data(), 0, nullptr,
                             nullptr) < 0 ||
        count > kMaxParameters)
      return fail(EIO, "filter {} is not in the dataset's pipeline", filter);
    const bool complete = count <= values.size();
    values.resize(count);
    if (complete) break;
  }
  return std::vector<uint32_t>(values.begin(), values.end());
}

hid_t decode_type(const std::string& encoded) {
#if H5_VERSION_GE(2, 0, 0)
  return H5Tdecode2(encoded.data(), encoded.size());
#else
  // libhdf5 does not read more than the type needs, but does not know how much there is: add zeros.
  return H5Tdecode((encoded + std::string(4096, '\0')).data());
#endif
}

}  // namespace

Result<DatasetToPrepare> describe_dataset(uint32_t filter, hid_t properties, hid_t type, hid_t space) {
  DatasetToPrepare dataset;
  CODECFS_ASSIGN(dataset.parameters, parameters_in(properties, filter, dataset.flags));
  size_t size = 0;
  if (H5Tencode(type, nullptr, &size) < 0) return fail(EIO, "the dataset's type cannot be encoded");
  dataset.type.resize(size);
  if (H5Tencode(type, dataset.type.data(), &size) < 0) return fail(EIO, "the dataset's type cannot be encoded");
  std::array<hsize_t, H5S_MAX_RANK> lengths{};
  const int rank = H5Sget_simple_extent_dims(space, lengths.data(), nullptr);
  if (rank < 0) return fail(EIO, "the dataset has no simple extent");
  dataset.shape.assign(lengths.begin(), lengths.begin() + rank);
  const int chunk_rank = H5Pget_chunk(properties, H5S_MAX_RANK, lengths.data());
  if (chunk_rank > 0) dataset.chunks.assign(lengths.begin(), lengths.begin() + chunk_rank);
  return dataset;
}

Result<std::vector<uint32_t>> prepare_dataset(const H5Z_class2_t& filter, const DatasetToPrepare& dataset) {
  const auto id = static_cast<uint32_t>(filter.id);
  const Handle<H5Tclose> type(decode_type(dataset.type));
  const std::vector<hsize_t> shape(dataset.shape.begin(), dataset.shape.end());
  const std::vector<hsize_t> chunks(dataset.chunks.begin(), dataset.chunks.end());
  const Handle<H5Sclose> space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  const Handle<H5Pclose> properties(H5Pcreate(H5P_DATASET_CREATE));
  if (!type || !space || !properties || chunks.empty() ||
      H5Pset_chunk(properties.get(), static_cast<int>(chunks.size()), chunks.data()) < 0 || H5Zregister(&filter) < 0 ||
      H5Pset_filter(properties.get(), filter.id, dataset.flags, dataset.parameters.size(), dataset.parameters.data()) <
          0)
    return fail(EIO, "the properties of the dataset cannot be copied");
  const auto function = dataset.only_check ? filter.can_apply : filter.set_local;
  const htri_t status = function == nullptr ? 1 : function(properties.get(), type.get(), space.get());
  if (status < 0) return fail(EINVAL, "it refuses this type, shape or its parameters");
  if (dataset.only_check && status == 0) return fail(ENOTSUP, "it cannot be applied to this type and shape");
  unsigned flags = 0;
  return parameters_in(properties.get(), id, flags);
}

}  // namespace codecfs::filters
