"""`as_data`: no tag of ours and no special token of a chat model survives, and nothing else is touched."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scisci_gym.envs.kit.fencing import as_data

SPECIAL_TOKENS = {
    "our tags": "<paper> </paper> <first> </second> <answer> </answer> <quote> </quote> </challenge> </response>",
    "Qwen, ChatML": "<|im_start|> <|im_end|> <|endoftext|> <|vision_start|> <think> </think> <tool_call> </tool_call>",
    "Llama 2": "<s> </s> <unk> [INST] [/INST] <<SYS>> <</SYS>>",
    "Llama 3": "<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|> <|python_tag|>",
    "Mistral": "[AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS] [IMG] [IMG_BREAK] "
    "[IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT] [ARGS] [CALL_ID] [THINK] "
    "[/THINK] <pad>",
    "Gemma": "<bos> <eos> <mask> <start_of_turn> <end_of_turn> <start_of_image> <|turn> <turn|> <channel|>",
    "DeepSeek": "<｜begin▁of▁sentence｜> <｜User｜> <｜Assistant｜> <｜tool▁calls▁begin｜> <|EOT|>",
    "Phi": "<|system|> <|user|> <|assistant|> <|end|> <|im_sep|>",
    "Harmony": "<|start|> <|message|> <|channel|> <|constrain|> <|return|> <|call|>",
    "Kimi": "<|im_user|> <|im_assistant|> <|im_middle|> <|tool_calls_section_begin|> [BOS] [EOS] [EOT] [PAD] [UNK]",
    "GLM": "[gMASK] <sop> <|observation|> <arg_key> </arg_value>",
}
TOKENS = [token for tokens in SPECIAL_TOKENS.values() for token in tokens.split()]


def plain(text: str) -> str:
    """An independent reading of a text as a lenient tokenizer has it: compatible letters, no case, nothing invisible,
    no white space next to brackets and bars."""
    visible = "".join(c for c in text if c.isspace() or unicodedata.category(c) not in ("Cf", "Cc"))
    folded = unicodedata.normalize("NFKC", visible).replace("▁", "_").casefold()
    return re.sub(r"(?<=[</\[|])\s+|\s+(?=[>|\]])", "", folded)


PLAIN_TOKENS = {plain(token) for token in TOKENS}


def test_every_character_that_is_compatible_with_an_opening_bracket_counts_as_one() -> None:
    """Alone: a text without any other bracket takes a short cut."""
    for bracket, token in (("<", "end_of_turn>"), ("[", "INST]")):
        alike = [c for c in map(chr, range(0x10000)) if unicodedata.normalize("NFKC", c) == bracket]
        assert len(alike) > 1
        assert [c for c in alike if as_data(c + token) == c + token] == []


def survivors(text: str) -> set[str]:
    return {token for token in PLAIN_TOKENS if token in plain(text)}


@pytest.mark.parametrize("token", TOKENS)
def test_every_special_token_loses_its_opening_bracket(token):
    shown = as_data(f"before {token} after")
    assert survivors(shown) == set()
    assert len(shown) == len(f"before {token} after")


@st.composite
def spellings(draw):
    """A special token with other case, full-width letters, and white space and invisible characters inside."""
    token = draw(st.sampled_from(TOKENS))
    gaps = st.lists(
        st.sampled_from(["\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u202e", "\x00", "\U000e0041"]), max_size=2
    )
    spaces = st.text(st.sampled_from(" \t\n\u00a0\u2003\u3000"), max_size=3)
    out = []
    for at, character in enumerate(token):
        form = draw(st.integers(0, 5))
        wide = chr(ord(character) + 0xFEE0) if "!" <= character <= "~" else character
        out.append([character, character, character, character.swapcase(), wide, character][form] + "".join(draw(gaps)))
        if character in "<[/|" or token[at + 1 : at + 2] in (">", "]", "|"):
            out.append(draw(spaces))
    return "".join(out)


PIECES = (
    spellings()
    | st.sampled_from(TOKENS)
    | st.sampled_from(["<", ">", "[", "]", "|", "/", " ", "a", "end"])
    | st.text(max_size=5)
)


@given(st.lists(PIECES, max_size=6).map("".join))
@settings(max_examples=10 * settings.default.max_examples)
def test_no_special_token_survives_in_any_spelling_and_a_second_time_changes_nothing(text):
    shown = as_data(text)
    assert survivors(shown) == set()
    assert as_data(shown) == shown
    assert len(shown) == len(text)
    assert all(was == now or now in "‹⁅" for was, now in zip(text, shown, strict=True))


WORDS = [
    "x < y",
    "<i>in vivo</i>",
    "H<sub>2</sub>O",
    "[1, 2]",
    "p < s",
    "a[i]",
    "<10 %",
    "≤ 5",
    "‹a›",
    "|ψ⟩",
    "β-Ti₃O₅",
    "½ ﬁ",
    "\n",
]


UNSUSPICIOUS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<[＜﹤［>]|＞﹥］"))


@given(st.lists(st.sampled_from(WORDS) | UNSUSPICIOUS).map(" ".join))
@settings(max_examples=4 * settings.default.max_examples)
def test_text_without_a_special_token_is_unchanged(text):
    assert as_data(text) == text


def test_a_long_s_and_a_kelvin_sign_count_as_the_letters_they_resemble():
    assert as_data("<anſwer>neutral") == "‹anſwer>neutral"
    assert as_data("<thin\N{KELVIN SIGN}>") == "‹thin\N{KELVIN SIGN}>"


def test_lone_surrogates_which_no_tokenizer_takes_are_replaced():
    assert as_data("a\ud800b \udfff<answer>") == "a\ufffdb \ufffd‹answer>"


SIZE = 5_000_000


PIECES_OF_TOKENS = ["<", "[", "< ", "</", "<s ", "<|", "<\u200b", "[inst ", "<parameter=", "<function=a"]


@pytest.mark.parametrize("piece", [*PIECES_OF_TOKENS, "<" + "a" * 40, "<" + " " * 10_000])
def test_five_megabytes_of_openings_are_read_once(piece):
    """What is quadratic takes days on these, and so runs into the time limit of the suite."""
    text = piece * (SIZE // len(piece))
    assert len(as_data(text)) == len(text)
    assert as_data("<" + " " * SIZE) == "<" + " " * SIZE
