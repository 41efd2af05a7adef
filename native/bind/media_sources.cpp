#include "bind/media_sources.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "bind/errors.h"
#include "bind/gil.h"
#include "bind/interrupt.h"
#include "bind/sources.h"

namespace nb = nanobind;

namespace spdl::bind {
namespace {

constexpr const char* kRead = "read";
constexpr const char* kBlock = "__spdl_block__";

// Python code calls this while it waits, and may keep it after the call.
class Question {
 public:
  explicit Question(Watch& watch) : watch_(std::make_shared<Watch*>(&watch)) {}
  ~Question() { *watch_ = nullptr; }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  // The GIL is held in each call and in the destructor.
  nb::object callable() const {
    return nb::cpp_function([watch = watch_] { return *watch == nullptr || (*watch)->is_over(); });
  }

 private:
  std::shared_ptr<Watch*> watch_;
};

// Bytes that a Python object reads. The last few blocks are kept, because the streams of a container may be far apart.
class PythonRanges final : public ByteRanges {
 public:
  PythonRanges(nb::handle object, std::string name)
      : held_(std::make_unique<Held>(object)),
        name_(std::move(name)),
        size_(nb::cast<std::int64_t>(object.attr("__spdl_size__"))) {}
  ~PythonRanges() override { drop_soon(std::move(held_)); }

  std::int64_t size() const noexcept override { return size_; }

  std::size_t read(std::int64_t position, std::span<std::uint8_t> into, Watch& watch) override {
    if (position >= size_ || into.empty()) {
      return 0;
    }
    const Block* block = find(position);
    if (block == nullptr) {
      block = &fetch(position, watch);
    }
    const auto offset = static_cast<std::size_t>(position - block->start);
    const std::size_t count = std::min(into.size(), block->bytes->size() - offset);
    std::memcpy(into.data(), block->bytes->data() + offset, count);
    return count;
  }

 private:
  struct Block {
    std::int64_t start = 0;
    std::optional<Export> bytes;

    bool has(std::int64_t position) const noexcept {
      return bytes && position >= start && position - start < static_cast<std::int64_t>(bytes->size());
    }
  };

  struct Held : Deferred {
    explicit Held(nb::handle from) : object(nb::borrow(from)) {}

    nb::object object;
    std::array<Block, 4> blocks;
  };

  const Block* find(std::int64_t position) const noexcept {
    const auto found = std::ranges::find_if(held_->blocks, [&](const Block& each) { return each.has(position); });
    return found == held_->blocks.end() ? nullptr : &*found;
  }

  // Called without the GIL.
  const Block& fetch(std::int64_t position, Watch& watch) {
    const nb::gil_scoped_acquire acquired;
    try {
      const nb::object given = ask(position, watch);
      if (!given.is_none()) {
        const auto pair = nb::cast<nb::tuple>(given);
        Block block{nb::cast<std::int64_t>(pair[0]), {}};
        block.bytes.emplace(pair[1], false, "a block");
        if (!block.has(position)) {
          throw Error(ErrorKind::kOpen, kRead, "the block that was read is elsewhere").in(name_);
        }
        next_ = (next_ + 1) % held_->blocks.size();
        return held_->blocks[next_] = std::move(block);
      }
      if (!watch.is_over()) {
        watch.expire();
      }
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) {
        keep_interrupt(error);
        throw Cancelled();
      }
      if (!watch.is_over()) {
        Error failure = Error(ErrorKind::kOpen, kRead, "it could not be read").in(name_);
        failure.foreign = std::make_shared<const PythonException>(error);
        throw failure;
      }
    }
    watch.throw_if_over(kRead, name_);
    throw Cancelled();
  }

  nb::object ask(std::int64_t position, Watch& watch) const {
    const Question question(watch);
    const auto left = watch.seconds_left();
    return held_->object.attr(kBlock)(position, left ? nb::cast(*left) : nb::none(), question.callable());
  }

  std::unique_ptr<Held> held_;
  std::string name_;
  std::int64_t size_;
  std::size_t next_ = 0;  // index of the block that was fetched last
};

}  // namespace

HeldMedia hold_media(nb::handle source, nb::handle name, const char* what) {
  if (nb::hasattr(source.type(), kBlock)) {
    const nb::str shown(name.is_none() ? source : name);
    std::string text = shown.c_str();
    return {std::shared_ptr<ByteRanges>(std::make_shared<PythonRanges>(source, text)), text, std::nullopt};
  }
  HeldSource held = hold_source(source, what);
  std::string shown = name_of(held.source, name);
  return {std::move(held.source), std::move(shown), std::move(held.held)};
}

MediaInputs collect_media(const nb::list& sources) {
  MediaInputs inputs;
  inputs.sources.reserve(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    HeldMedia held = hold_media(sources[i], nb::none(), ("source " + std::to_string(i)).c_str());
    inputs.names.push_back(std::move(held.name));
    inputs.sources.push_back(std::move(held.source));
    if (held.held) {
      inputs.exports.push_back(*std::move(held.held));
    }
  }
  return inputs;
}

}  // namespace spdl::bind
