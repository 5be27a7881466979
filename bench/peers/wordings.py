"""Questions, each beside another that sounds alike: some ask for the same, most do not."""

from __future__ import annotations

from typing import NamedTuple


class Wordings(NamedTuple):
    """A question that is cached, and one that comes later."""

    cached: str
    asked: str


DIFFERENT = [
    Wordings(*each)
    for each in (
        ("Does aspirin thin the blood?", "Does aspirin not thin the blood?"),
        ("Is it safe to reheat cooked rice?", "Is it unsafe to reheat cooked rice?"),
        ("Which bridges are open to lorries?", "Which bridges are not open to lorries?"),
        ("How do I turn on dark mode?", "How do I turn off dark mode?"),
        (
            "How do I enable the firewall on my router?",
            "How do I disable the firewall on my router?",
        ),
        ("What is 15 percent of 80 dollars?", "What is 18 percent of 80 dollars?"),
        ("How many days are in 3 fiscal weeks?", "How many days are in 5 fiscal weeks?"),
        ("What happened in Berlin in 1961?", "What happened in Berlin in 1989?"),
        ("How much is 20 miles in kilometres?", "How much is 20 kilometres in miles?"),
        ("Convert 100 USD to EUR", "Convert 100 EUR to USD"),
        (
            "How much paracetamol is 500 mg twice a day?",
            "How much paracetamol is 500 g twice a day?",
        ),
        ("How do I set the oven to 180 Celsius?", "How do I set the oven to 180 Fahrenheit?"),
        ("What is the capital of Australia?", "What is the capital of Austria?"),
        ("Who won the race, Anna or Boris?", "Who lost the race, Anna or Boris?"),
        ("Can a landlord sue a tenant?", "Can a tenant sue a landlord?"),
        ("Do wolves hunt bears in winter?", "Do bears hunt wolves in winter?"),
        ("What should I do before a blood test?", "What should I do after a blood test?"),
        ("What is the maximum size of an upload?", "What is the minimum size of an upload?"),
        (
            "Which Python versions are newer than 3.11?",
            "Which Python versions are older than 3.11?",
        ),
        ("When does the shop open on Monday?", "When does the shop open on Sunday?"),
        ("How do I delete one row in SQL?", "How do I delete all rows in SQL?"),
        ("Is the train to Lyon faster than the bus?", "Is the bus to Lyon faster than the train?"),
        ("Who may see my medical file?", "Who may change my medical file?"),
        ("How do I import contacts from Outlook?", "How do I export contacts to Outlook?"),
    )
]
SAME = [
    Wordings(*each)
    for each in (
        ("How do I reset my password?", "how do i reset my password"),
        ("What is the boiling point of ethanol?", "Please, what is the boiling point of ethanol?"),
        ("How do I cancel my subscription?", "How can I cancel my subscription?"),
        ("Where is the nearest pharmacy in Porto?", "Where's the nearest pharmacy in Porto?"),
        ("Who wrote the novel Middlemarch?", "Who is the author of the novel Middlemarch?"),
        ("What does HTTP status 418 mean?", "What is the meaning of HTTP status 418?"),
        ("How do I sort a list in Python?", "How to sort a Python list?"),
        ("What are the symptoms of anaemia?", "What symptoms does anaemia have?"),
        ("When was the printing press invented?", "In which year was the printing press invented?"),
        ("How tall is Mount Kenya?", "What is the height of Mount Kenya?"),
        ("Why is the sea salty?", "What makes the sea salty?"),
        ("How do I lose weight fast?", "What is a quick way to lose weight?"),
    )
]


def answers() -> dict[str, str]:
    """What the engine says to each: of two that ask for the same, the same."""
    told: dict[str, str] = {}
    for place, (cached, asked) in enumerate(DIFFERENT):
        told |= {cached: f"Answer {place} to the first.", asked: f"Reply {place} to the other."}
    for place, (cached, asked) in enumerate(SAME):
        told |= dict.fromkeys((cached, asked), f"Answer {place} to both.")
    return told
