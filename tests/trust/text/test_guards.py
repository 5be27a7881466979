"""Guards veto look-alikes and let other words for the same thing pass."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askonce.trust.text.guards import GUARDS, verdicts, veto

LEASE = (
    "The owner lets a house to the guest, and the guest pays the owner every month "
    "unless the owner has let it rot. "
)

TRAPS = {
    "literal": [
        ("How many letters are in cheque?", "How many letters are in check?"),
        ("How is behaviour pronounced?", "How is behavior pronounced?"),
        ('Is "neighbour" good style?', 'Is "neighbor" good style?'),
        ("Why was the letter K chosen?", "Why was the letter k chosen?"),
        ("What is (5-2)*8?", "What is 5-(2*8)?"),
        ("When is !ready set?", "When is ready set?"),
        ("Is it a fish-eating bird?", "Is it a fish eating bird?"),
        ("Did they re-form the club?", "Did they reform the club?"),
        ("Is 6' tall?", 'Is 6" tall?'),
        ("What rhymes with pans?", "What rhymes with pan?"),
        ("Is level a palindrome?", "Is Level a palindrome?"),
        ("Translate to Dutch: my cats sleep", "Translate to Dutch: my cat sleeps"),
        ("Rewrite the sentence: Your here", "Rewrite the sentence: You're here"),
        ("Count the spaces in: p q", "Count the spaces in: p  q"),
        ("Sort these: b a", "Sort these: b, a"),
        ("Does the sentence end well: No!", "Does the sentence end well: No"),
        ('Is this valid? {"k":[2]}', 'Is this valid? {"k":[2}}'),
        ("Who says 'hey there'?", "Who says 'Hey there'?"),
        ("What is \u202eolleh?", "What is olleh?"),
        ("What is 4\u200b5?", "What is 45?"),
    ],
    "case": [
        ("What does sort -r do?", "What does sort -R do?"),
        ("How much is 3 mW?", "How much is 3 MW?"),
        ("Is 20 Mb enough?", "Is 20 MB enough?"),
        ("Is it 7 m long?", "Is it 7 M long?"),
        ("Is CO harmful?", "Is Co harmful?"),
        ("is the passphrase dragon42 weak", "is the passphrase Dragon42 weak"),
        ("What is dGVh= in plain text?", "What is DGVh= in plain text?"),
        ("Who sets the Total variable?", "Who sets the total variable?"),
        ("where does IT sit", "where does it sit"),
        ("Can you tell US the rules?", "Can you tell us the rules?"),
        ("When does March begin?", "When does march begin?"),
        ("Is Polish hard?", "Is polish hard?"),
        ("Does -x come before -X or not?", "Does -X come before -x or not?"),
    ],
    "numbers": [
        ("How do I book a table for 4?", "How do I book a table for 6?"),
        ("What is 15% of 200?", "What is 20% of 200?"),
        ("Is two hours enough to change planes?", "Is three hours enough to change planes?"),
        ("Can I keep $1,500 in cash?", "Can I keep $15,000 in cash?"),
        ("Who was the 3rd president?", "Who was the fourth president?"),
        ("What's new in Python 3.10?", "What's new in Python 3.1?"),
        ("How much is 2.5 million yen?", "How much is 25 million yen?"),
        ("Who won the World Cup?", "Who won the 1998 World Cup?"),
        ("Does the shop open at 8am?", "Does the shop open at 8pm?"),
        ("Does the train leave at 14:30?", "Does the train leave at 15:30?"),
        ("Mix 4 g of zinc with 9 g of tin?", "Mix 9 g of zinc with 4 g of tin?"),
        ("Use 3 eggs and 8 apples. Enough?", "Use 8 eggs and 3 apples. Enough?"),
        ("Ann has 2 and Bob 6. Who has more?", "Ann has 6 and Bob 2. Who has more?"),
        ("What is 9 - 4?", "What is 4 - 9?"),
        ("Who lost 3-1?", "Who lost 1-3?"),
        ("Is 02-05-2011 a holiday?", "Is 05-02-2011 a holiday?"),
        ("Is 7 km more than 3 km?", "Is 3 km more than 7 km?"),
        ("Is 2.5 the answer?", "Is 2,5 the answer?"),
        ("What is 3²?", "What is 32?"),
    ],
    "units": [
        ("How heavy is 10 kg of flour?", "How heavy is 10 lbs of flour?"),
        ("How much is 50 euros worth?", "How much is 50 dollars worth?"),
        ("Bake it at 200 Celsius?", "Bake it at 200 Fahrenheit?"),
        ("Is $40 a fair tip?", "Is £40 a fair tip?"),
    ],
    "dates": [
        ("Are the offices closed on Friday?", "Are the offices closed on Monday?"),
        ("What is the weather in May like?", "What is the weather in June like?"),
        ("Will it rain tomorrow?", "Did it rain yesterday?"),
        ("What does parking cost a day?", "What does parking cost a week?"),
    ],
    "code": [
        ("What does `git reset` do?", "What does `git rebase` do?"),
        ("Where is /etc/hosts used?", "Where is /etc/passwd used?"),
        ("What does max_tokens mean?", "What does min_tokens mean?"),
        ("Is https://a.example.com down?", "Is https://b.example.com down?"),
        ("Can I write to anna@example.com?", "Can I write to otto@example.com?"),
        ("👍", "👎"),
        ("Does `a` work?", "Does it work?"),
        ("How do I learn C++?", "How do I learn C#?"),
        ("What is 7 + 5?", "What is 7 * 5?"),
        ("Is `x` or `y` tried first?", "Is `y` or `x` tried first?"),
        ("Reviews of the film :)", "Reviews of the film :("),
        ("Why does foo.bar() fail?", "Why does foo.baz() fail?"),
    ],
    "names": [
        ("When did Norway join NATO?", "When did Sweden join NATO?"),
        ("Is the Leipzig office hiring?", "Who can I ask about jobs at the Dresden office?"),
        ("How tall is the Eiffel Tower?", "How tall is the Tokyo Tower?"),
        ("What is the population?", "What is the population of Peru?"),
    ],
    "negation": [
        ("Can I eat grapes?", "Can't I eat grapes?"),
        ("What foods should I eat with gout?", "What foods should I not eat with gout?"),
        ("Does the cake contain nuts?", "Does the cake contain no nuts?"),
        ("Can I drive with a licence?", "Can I drive without a licence?"),
        ("Why does my phone charge?", "Why doesn't my phone charge?"),
        ("Why dont cats swim", "why do cats swim"),
    ],
    "opposites": [
        ("How do I turn on the heating?", "How do I turn off the heating?"),
        ("Flights arriving in Rome", "Flights leaving Rome"),
        ("How do I mute a call?", "How do I unmute a call?"),
        ("What is the cheapest phone?", "What is the most expensive phone?"),
        ("How do I sell my shares?", "How can I buy shares?"),
        ("Why do prices increase?", "Why do prices fall, or decrease?"),
        ("Is the zoo suitable for babies?", "Is the zoo suitable for adults?"),
        ("How do I install the driver?", "How do I uninstall the driver?"),
        ("What is the minimum age?", "What's the maximum age?"),
        ("What causes hypokalemia?", "What causes hyperkalemia?"),
        ("Is intracellular fluid salty?", "Is extracellular fluid salty?"),
        ("Who runs the prewar archive?", "Who runs the postwar archive?"),
        ("Is the drug painful?", "Is the drug painless?"),
        ("Who is the interviewer?", "Who is the interviewee?"),
        ("Is she bilingual?", "Is she trilingual?"),
    ],
    "order": [
        ("Did Anna call Peter?", "Did Peter call Anna?"),
        ("Is tea better than coffee?", "Is coffee better than tea?"),
        ("Flights to Rome", "Flights from Rome"),
        ("Flights from Rome to Oslo", "Flights from Oslo to Rome"),
        ("Convert 100 USD to EUR", "Convert 100 EUR to USD"),
        ("Did the dog bite the postman?", "Did the postman bite the dog?"),
        ("Did Anna invite Peter?", "Was Anna invited by Peter?"),
        ("Does Anna hate Peter?", "Is Anna hated by Peter?"),
        ("Is Robert using Nathan?", "Is Nathan using Robert?"),
        ("Is Anna Peter's boss?", "Is Peter Anna's boss?"),
        ("Who did Anna follow?", "Who followed Anna?"),
        ("Does rain bring joy?", "Does joy bring rain?"),
        ("Peter lent Anna a bike. Who rides it?", "Anna lent Peter a bike. Who rides it?"),
        ("Which club owns the pitch?", "Which club does the pitch own?"),
        ("What town borders Hull?", "What town does Hull border?"),
        ("What worries parents?", "What do parents worry?"),
        ("Who is the aunt of Peter?", "Who is Peter the aunt of?"),
        ("Who is Peter's aunt?", "Who is Peter the aunt of?"),
        ("Who is older than Anna?", "Who is Anna older than?"),
        ("What is used for bread?", "What is bread used for?"),
        ("Whose aunt is Anna?", "Who is the aunt of Anna?"),
        ("I want jam but fear honey. Ideas?", "I want honey but fear jam. Ideas?"),
        ("If it snows we ski, if it thaws we hike", "If it snows we hike, if it thaws we ski"),
        ("Fill the pan then light the stove", "Light the stove then fill the pan"),
        ("Wash the car and feed the cat", "Feed the car and wash the cat"),
        ("Does P follow A?", "Does A follow P?"),
        ("Is b faster than a?", "Is a faster than b?"),
        ("Is my sister taller than me?", "Am I taller than my sister?"),
        (LEASE + "May the guest sue the owner?", LEASE + "May the owner sue the guest?"),
        (
            "How do I move files from Dropbox to Drive?",
            "How do I move files from Drive to Dropbox?",
        ),
    ],
    "scope": [
        ("Can I pay by card?", "Can I only pay by card?"),
        ("Is it a tent and a shelter?", "Is it a tent or a shelter?"),
        ("Is Ann as old as Mary?", "Is Ann older than Mary?"),
        ("Do all birds migrate?", "Do some birds migrate?"),
        ("Can I park until noon?", "Can I park from noon?"),
        ("Only Peter eats meat", "Peter eats only meat"),
    ],
    "person": [
        ("How do I renew my card?", "How do I renew your card?"),
        ("Do I owe them money?", "Do they owe me money?"),
        ("Is he allowed to vote?", "Is she allowed to vote?"),
        ("Can I see my file?", "Can they see their file?"),
        ("The clerk must stamp it soon?", "The clerk must stamp them soon?"),
        ("Give me your keys?", "Give you my keys?"),
    ],
    "question": [
        ("When was the bridge built?", "Where was the bridge built?"),
        ("Why was the bridge built?", "Who built the bridge?"),
        ("Which year was the stone bridge built?", "Where was the stone bridge built?"),
        ("In which city was the bridge built?", "When was the bridge built?"),
        ("How many rooms are there?", "How much are the rooms?"),
        ("Is the museum open?", "When is the museum open?"),
    ],
    "mood": [
        ("Can I sign the form?", "Must I sign the form?"),
        ("Is Anna a nurse?", "Was Anna a nurse?"),
        ("Do I have to tip?", "Can I tip?"),
        (
            "The carrier shall insure the load on its own account, and may stop on the way",
            "The carrier may insure the load on its own account, and may stop on the way",
        ),
        ("The lender will pay by May and can claim", "The lender must pay by May and can claim"),
    ],
    "content": [
        ("how can I reset my password", "How do I reset my router?"),
        ("How do I reset my router?", "How do I reset my password?"),
        ("What is the capital of france", "What is the capital of spain"),
        ("What are the symptoms of flu?", "What are the symptoms of flu in babies?"),
        ("How large is niger", "How large is nigeria"),
        ("Is nitrate toxic?", "Is nitrite toxic?"),
        ("Is the country tax due?", "Is the county tax due?"),
        ("Who is Hansen?", "Who is Hanson?"),
        ("side effects of ibuprofen", "side effects of aspirin"),
        ("Is my order shipped?", "Is my order delivered?"),
        ("How do I cook rice?", "How do I cook lentils?"),
        ("Is this a reliable car?", "Is this a fast car?"),
        ("Разве это дорого?", "Разве это дёшево?"),
        ("東京の人口は?", "大阪の人口は?"),
        ("", "hello world"),
    ],
}

SAME = [
    ("What do 5 apples and 3 pears cost?", "What do 3 pears and 5 apples cost?"),
    ("Ann needs 2 coats and 4 hats", "Ann needs 4 hats and 2 coats"),
    ("How far is france?", "How far is France?"),
    ("How do I use whatsapp at work?", "How do I use WhatsApp at work?"),
    ("How Do I Reset My Password?", "how do I reset my password?"),
    ("Is it 10 GB?", "is it 10 gb"),
    ("IS IT 7 M LONG?", "is it 7 m long?"),
    ("Who is the owner of the shop?", "Who's the shop's owner?"),
    ("How does real gas differ from ideal gas?", "how does real gas differ from ideal gas"),
    ("Compare real gas and ideal gas", "Compare ideal gas and real gas"),
    ("Compare web pages and web sites", "Compare web sites and web pages"),
    ("Is Peter or Anna older?", "Is Anna or Peter older?"),
    ("At night, may I park here?", "May I park here at night?"),
    ("How do I reset my password? :)", "How do I reset my password?"),
    ("Quick question: where is my parcel?", "Where is my parcel?"),
    ("Does the café open at noon?", "Does the cafe\u0301 open at noon?"),
    ("Is it ok to go?", "Is it OK to go?"),
    ("How do I reset my “old” password", "How do I reset my “old” password?"),
    ("Is this the renewal form?", "Is this the form to renew?"),
    ("How do I become a third member?", "How do I become the third member?"),
    ("How do I warm soup?", "How do I warm my soup?"),
    ("Does vitamin a help?", "Does vitamin A help?"),
    ("How do I reset my password?", "how do i reset my password"),
    ("How do I reset my password?", "Hi there! How do I reset my password please? Thanks"),
    ("How do I reset my password?", "How can you reset your password?"),
    ("How do I reset my password?", "I forgot my password, what do I do?"),
    ("What's the fee?", "What is the fee?"),
    ("How much does the ticket cost?", "What is the price of the ticket?"),
    ("What time does the shop open?", "When does the shop open?"),
    ("Where can I buy stamps?", "Where can I purchase stamps?"),
    ("How do I cancel my subscription?", "How do I go about cancelling my subscription?"),
    ("Did Anna sell the farm?", "Was the farm sold by Anna?"),
    ("Did Anna call Peter?", "Was Peter called by Anna?"),
    ("Is tea better than coffee?", "What is better, coffee or tea?"),
    ("Which is bigger, Earth or Mars?", "Is Mars or Earth bigger?"),
    ("When was Hamlet written?", "What year was Hamlet written?"),
    ("My card was declined", "my card has been declined"),
    ("Is he a cook or a baker?", "Is he a baker or a cook?"),
    ("On my phone, how do I block a number?", "How do I block a number on my phone?"),
    ("Is it 5 kilometers away?", "Is it five km away?"),
    ("Is 1,000 dollars enough?", "Is $1000 enough?"),
    ("Is twenty-five too old?", "Is 25 too old?"),
    ("Do you open at 5pm?", "Do you open at 17:00?"),
    ("Who was the third king?", "Who was the 3rd king?"),
    ("What is the accomodation like?", "What is the accommodation like?"),
    ("How do I recieve money?", "How do I receive money?"),
    ("Set up two-factor authentication", "set up 2FA"),
    ("Capital of the United States?", "Capital of the U.S.?"),
    ("How do I turn off notifications?", "How do I disable notifications?"),
    ("Who is not unhappy about it?", "Who isn't unhappy about it"),
    ("What is the check-in time?", "What is the checkin time?"),
    ("Who runs Microsoft?", "Who is the CEO of Microsoft?"),
    ("Do I get statutory sick pay?", "Do I get SSP?"),
    ("How do I report a leak on my road?", "How do I report a leak in my street?"),
    ("Is it safe to fly in winter?", "Can I fly safely during the winter?"),
    ("What does `len` do?", "what does `len` do"),
    ("Needn't I sign?", "need I not sign"),
    ("Where is my lunchbox?", "Where is my lunch box?"),
    ("What is COVID-19?", "What is covid?"),
    ("C'est combien ?", "c'est combien?"),
    ("東京の人口は?", "東京の人口は"),
    ("👍", " 👍 "),
    ("", "  "),
]


@pytest.mark.parametrize(
    ("guard", "one", "other"),
    [(guard, one, other) for guard, pairs in TRAPS.items() for one, other in pairs],
)
def test_a_trap_is_vetoed_by_the_guard_made_for_it(guard: str, one: str, other: str) -> None:
    """Each look-alike meets its guard, whichever of the two was cached."""
    assert guard in verdicts(one, other)
    assert guard in verdicts(other, one)
    assert veto(one, other) == verdicts(one, other)[0]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_other_words_for_the_same_question_pass(one: str, other: str) -> None:
    """No guard speaks up against a rewording."""
    assert verdicts(one, other) == []
    assert verdicts(other, one) == []
    assert veto(one, other) is None


WORDS = [
    *["how", "do", "I", "not", "turn", "on", "off", "3", "3rd", "$5", "Rome", "the", "from", "to"],
    *["is", "by", "better", "than", "can't", "a.b()", "`x`", "USD", "10GB", "5pm", "2025/26"],
    *["it's", "don't", "東京", "👍"],
]
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(WORDS),
        max_size=12,
    ).map(" ".join),
)


@given(TEXTS, TEXTS)
def test_a_verdict_does_not_depend_on_which_text_was_cached(one: str, other: str) -> None:
    """The two sides are equal before the guards."""
    assert verdicts(one, other) == verdicts(other, one)
    assert veto(one, other) == veto(other, one)


@given(TEXTS)
def test_a_text_never_excludes_itself(text: str) -> None:
    """Spacing and the mark at the end change nothing."""
    assert veto(text, text) is None
    assert veto(text, f"  {text}\n") is None
    assert veto(text, "  ".join(text.split(" "))) is None


ORDINARY_WORDS = [
    *["how", "do", "i", "reset", "my", "password", "where", "is", "the", "nearest", "bank"],
    *["can", "she", "swim", "over", "there", "at", "noon"],
]
ORDINARY = st.lists(st.sampled_from(ORDINARY_WORDS), min_size=1, max_size=12).map(
    lambda words: " ".join(words).capitalize() + "?"
)


@given(ORDINARY)
def test_case_alone_is_no_evidence(text: str) -> None:
    """Shouting an ordinary question, or writing it all small, does not change it."""
    assert veto(text, text.upper()) is None
    assert veto(text.lower(), text) is None


@pytest.mark.parametrize("mark", ["?", "!", "...", "?!", " ?"])
def test_punctuation_at_the_end_is_no_evidence(mark: str) -> None:
    """A question with another mark is the same question."""
    assert veto("How do I reset my password", "How do I reset my password" + mark) is None


@pytest.mark.parametrize(
    "long",
    [
        "a" * 10_000,
        "a.b" * 3_333,
        "word " * 2_000,
        "a_b@" * 2_500,
        "`" * 10_000,
        "don't 1 " * 1_250,
        "東京" * 5_000,
        "five hundred thousand " * 450,
        "-1" * 5_000,
        "five" + " hundred" * 5_000,
        "".join(map(chr, range(10_000))),
        " ".join(f"w{number}" for number in range(1_700)),
        "((((" * 2_500,
        "how do i " * 1_100,
        "a" + "\u0316\u0301" * 40_000,
        "1 2 " * 2_500,
        "sort the " * 1_100,
        "'a \"b " * 1_600,
        "A a-B " * 1_600,
    ],
    ids=lambda text: text[:8],
)
def test_long_texts_take_bounded_time(long: str) -> None:
    """Ten thousand characters of anything are read and compared in a fraction of a second."""
    began = time.process_time()
    veto(long, long[::-1])
    veto(long, "How do I reset my password?")
    veto(long, long[:-7])
    assert time.process_time() - began < 3.0


def test_every_guard_has_a_trap() -> None:
    """No guard goes untested."""
    assert set(TRAPS) == set(GUARDS)


def test_the_same_text_has_no_verdicts() -> None:
    """Nothing speaks against a text itself."""
    assert verdicts("Is it 5 km?", "is it 5 km") == []


def test_a_long_rewording_is_not_held_to_the_rules_for_near_copies() -> None:
    """Texts with little in common but the subject pass, however many words differ."""
    assert (
        veto(
            "How do I get my tenancy deposit back when I leave?",
            "I am moving out of my rented flat; what must I do to recover the deposit I paid?",
        )
        is None
    )


def test_many_leftovers_are_compared_by_table_alone() -> None:
    """Two long texts are not matched word by word, yet a known opposite still counts."""
    letters = "bcdfghjklmnpqrtv"
    shared = " ".join(f"topic{a}{b}o" for a in letters for b in "aeiou")
    one = shared + " import " + " ".join(f"zu{a}{b}o" for a in letters for b in "aei")
    other = shared + " export " + " ".join(f"wo{a}{b}u" for a in letters for b in "aei")
    assert "opposites" in verdicts(one, other)
    assert "opposites" not in verdicts(
        one.replace("import", "invent"), other.replace("export", "vend")
    )


def test_one_content_word_swapped_among_many_is_evidence_even_when_reworded() -> None:
    """Where nearly all content words are shared, the odd one out is what is asked."""
    one = "How does the night nurse measure blood sugar for a diabetic patient?"
    other = (
        "What would you do as a nurse to measure the blood sugar of my diabetic patient at dawn?"
    )
    assert verdicts(one, other) == ["content"]
