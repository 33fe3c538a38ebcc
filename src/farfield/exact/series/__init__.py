"""Values in falling powers of ``t``: networks whose slopes and intercepts are not enough."""
