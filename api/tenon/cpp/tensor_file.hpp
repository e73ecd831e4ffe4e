/* Part of tenon/tenon.hpp: named tensors in files, safetensors. */
#ifndef TENON_CPP_TENSOR_FILE_HPP
#define TENON_CPP_TENSOR_FILE_HPP

#include <map>

#include "tenon/cpp/tensor.hpp"

namespace tenon {
inline namespace TENON_CPP_VERSION {

using named_tensors = std::map<std::string, tensor>;
using texts = std::map<std::string, std::string>;

/* Writes them; see tn_tensors_save. */
inline void save(const std::string &path, const named_tensors &tensors,
                 const texts &metadata = {}) {
  std::vector<const char *> names;
  std::vector<const tn_tensor *> handles;
  std::vector<tn_tensors_metadata> pairs;
  for (const auto &[name, t] : tensors) names.push_back(name.c_str()), handles.push_back(t.get());
  for (const auto &[key, value] : metadata) pairs.push_back({key.c_str(), value.c_str()});
  check(tn_tensors_save(path.c_str(), names.size(), names.data(), handles.data(), pairs.size(),
                        pairs.data()));
}

/* A file that is open; its tensors outlive it. */
class tensor_file {
public:
  explicit tensor_file(const std::string &path) {
    tn_tensors *opened = nullptr;
    check(tn_tensors_open(path.c_str(), &opened));
    p_.reset(opened);
  }

  tn_tensors *get() const noexcept { return p_.get(); }
  std::size_t size() const noexcept { return tn_tensors_count(p_.get()); }
  /* What it points to belongs to the file. */
  tn_tensors_entry at(std::size_t index) const {
    tn_tensors_entry entry = {};
    entry.struct_size = sizeof entry;
    check(tn_tensors_at(p_.get(), index, &entry));
    return entry;
  }
  bool contains(const std::string &name) const {
    std::size_t index = 0;
    return tn_tensors_find(p_.get(), name.c_str(), &index) == TN_OK;
  }
  texts metadata() const {
    texts all;
    tn_tensors_metadata pair;
    for (std::size_t i = 0; tn_tensors_metadata_at(p_.get(), i, &pair) == TN_OK; ++i)
      all.emplace(pair.key, pair.value);
    return all;
  }

  /* On a device; read-only where it can be the file's own bytes: see tn_tensors_load. */
  tensor load(const std::string &name, device where = device::current()) const {
    std::size_t index = 0;
    check(tn_tensors_find(p_.get(), name.c_str(), &index));
    return load(index, where);
  }
  tensor load(std::size_t index, device where = device::current()) const {
    tensor t;
    check(tn_tensors_load(p_.get(), index, where.get(), t.c_out()));
    return t;
  }
  named_tensors load_all(device where = device::current()) const {
    named_tensors all;
    for (std::size_t i = 0; i < size(); ++i) all.emplace(at(i).name, load(i, where));
    return all;
  }

private:
  struct close {
    void operator()(tn_tensors *file) const noexcept { tn_tensors_close(file); }
  };
  std::unique_ptr<tn_tensors, close> p_;
};

} // namespace TENON_CPP_VERSION
} // namespace tenon

#endif
