
*€x€€€„Bhalves