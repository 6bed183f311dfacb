#include "commands/omissions.h"

#include <gtest/gtest.h>

namespace codecfs::commands {
namespace {

InfoNode variable(const std::string& path, std::optional<Error> error, std::vector<std::string> names = {"x"},
                  std::vector<uint64_t> shape = {4}) {
  InfoNode node{
      .path = path, .entry = {.name = path, .kind = EntryKind::variable, .target = {}}, .error = {}, .variable = {}};
  node.variable.emplace();
  node.variable->error = error;
  if (error) return node;
  auto facts = std::make_shared<Variable>();
  facts->dimensions = std::move(names);
  facts->grid = *ChunkGrid::make(shape, shape);
  node.variable->facts = std::move(facts);
  return node;
}

class OmissionsTest : public testing::Test {
 protected:
  OmissionsTest() {
    options.told = [this](const LeftOut& left) { told.push_back(left.path + (left.is_allowed ? " allowed" : "")); };
    info.format = "HDF5";
  }

  ConvertOptions options;
  DatasetInfo info;
  std::vector<std::string> told;
};

TEST_F(OmissionsTest, OnlyWhatIsWholeIsUnsupported) {
  info.nodes = {variable("a", Error{EOPNOTSUPP, "no form"}), variable("b", Error{EIO, "damaged"}), variable("c", {})};
  options.skip_unsupported = true;
  Omissions omissions(options);
  omissions.add_found(info, false);
  ASSERT_TRUE(omissions.fails());
  EXPECT_EQ(omissions.error().code, EIO);
  EXPECT_EQ(omissions.error().reason, "/b: damaged; --skip /b leaves it out");
  EXPECT_TRUE(omissions.covers("/a") && omissions.covers("/b/0") && !omissions.covers("/c") &&
              !omissions.covers("/bb"));
}

TEST_F(OmissionsTest, AllAreTold) {
  info.nodes = {variable("a", Error{EOPNOTSUPP, "no form"}), variable("b", Error{EIO, "damaged"}), variable("c", {})};
  Omissions omissions(options);
  omissions.add_found(info, false);
  const Error error = omissions.error();
  EXPECT_EQ(error.code, EIO) << "another attempt may succeed";
  EXPECT_NE(error.reason.find("2 variables"), std::string::npos);
  EXPECT_NE(error.reason.find("--skip-unsupported"), std::string::npos);
  EXPECT_EQ(told, (std::vector<std::string>{"/a", "/b"}));
}

TEST_F(OmissionsTest, HowACopyOfHdf5Differs) {
  info.nodes = {variable("a", Error{EOPNOTSUPP, "no form"})};
  Omissions copy(options);
  copy.add_found(info, true);
  EXPECT_FALSE(copy.fails()) << "HDF5 keeps it";
  info.format = "Zarr v3";
  options.skip_unsupported = true;
  Omissions of_zarr(options);
  of_zarr.add_found(info, false);
  EXPECT_TRUE(of_zarr.fails()) << "what cannot be read";
}

TEST_F(OmissionsTest, SkippedOnesAreToldAtTheEnd) {
  info.nodes = {variable("g/a", Error{EIO, "damaged"}), variable("b", Error{EOPNOTSUPP, "no form"})};
  options.skip = {"/g"};
  options.skip_unsupported = true;
  Omissions omissions(options);
  omissions.add_found(info, false);
  ASSERT_FALSE(omissions.fails());
  omissions.tell_allowed();
  EXPECT_EQ(told, (std::vector<std::string>{"/g allowed", "/b allowed"}));
}

TEST_F(OmissionsTest, DimensionsOfAGroupHaveOneLength) {
  info.nodes = {variable("a", {}), variable("b", {}, {"x"}, {5}), variable("g/b", {}, {"x"}, {5}),
                variable("c", {}, {"y", "y"}, {2, 3}), variable("d", {}, {"y", "x"}, {2, 4})};
  Omissions omissions(options);
  omissions.add_unequal_dimensions(info);
  EXPECT_TRUE(omissions.covers("/b") && omissions.covers("/c"));
  EXPECT_FALSE(omissions.covers("/a") || omissions.covers("/g/b") || omissions.covers("/d"));
}

}  // namespace
}  // namespace codecfs::commands
