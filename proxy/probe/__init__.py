"""The relay check's active side: requests go out, answers are judged like live traffic."""
