// The forms of the views.

#include "fs/nodes/view.h"

#include <gtest/gtest.h>

#include <set>

#include "support/memory_source.h"

namespace codecfs::fs {
namespace {

TEST(ViewForms, EachHasItsNameAndShowsVariablesInOneWay) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kViews; ++i) {
    const auto view = static_cast<View>(i);
    const ViewForm& form = form_of(view);
    EXPECT_TRUE(names.insert(form.name).second) << form.name;
    EXPECT_EQ(view_named(form.name), view);
    EXPECT_NE(form.metadata == nullptr, form.array == nullptr) << form.name;
    EXPECT_TRUE(form.metadata != nullptr || !form.is_encoded) << form.name;
  }
  EXPECT_EQ(view_named("other"), std::nullopt);
  EXPECT_EQ(view_names(), "decoded, encoded, decoded3, encoded3, npy and raw");
}

TEST(ViewForms, TheCounterpartHasTheOtherFormat) {
  EXPECT_EQ(counterpart_of(View::decoded), View::decoded3);
  EXPECT_EQ(counterpart_of(View::encoded), View::encoded3);
  EXPECT_EQ(counterpart_of(View::decoded3), View::decoded);
  EXPECT_EQ(counterpart_of(View::encoded3), View::encoded);
  EXPECT_EQ(counterpart_of(View::npy), View::decoded3);
}

TEST(ViewForms, FilesOfAFormat) {
  EXPECT_TRUE(kZarr2Format.has_file(".zgroup"));
  EXPECT_TRUE(kZarr2Format.has_file(".zarray"));
  EXPECT_FALSE(kZarr2Format.has_file("zarr.json"));
  EXPECT_TRUE(kZarr3Format.has_file("zarr.json"));
  for (const std::string_view own : {"_Filter", "_Codecs"}) {
    EXPECT_FALSE(kZarr2Format.has_file(own));
    EXPECT_FALSE(kZarr3Format.has_file(own));
  }
}

TEST(ViewForms, ASourceIsShownInItsOwnFormat) { EXPECT_EQ(default_view(MemorySource()), View::decoded); }

}  // namespace
}  // namespace codecfs::fs
