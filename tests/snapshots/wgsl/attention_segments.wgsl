@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn attention_segments(@builtin(workgroup_id) v344: vec3<u32>, @builtin(num_workgroups) v346: vec3<u32>, @builtin(local_invocation_index) v353: u32) {
let v419 = &v9;
let v420 = &v5;
let v421 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v15 = info_var.scalars_usize[2];
let v345 = v344[2];
let v161 = u32(v345);
let v347 = v346[1];
let v163 = u32(v347);
let v164 = v161 * v163;
let v348 = v346[0];
let v166 = u32(v348);
let v167 = v164 * v166;
let v349 = v344[1];
let v169 = u32(v349);
let v172 = v169 * v166;
let v173 = v167 + v172;
let v351 = v344[0];
let v175 = u32(v351);
let v176 = v173 + v175;
let v411 = u32(64);
let v179 = v176 * v411;
let v354 = v353;
let v181 = u32(v354);
let v182 = v179 + v181;
let v17 = v182 < v14;
if v17 {
var<function> v149_store: u32;
let v149 = &v149_store;
*v149 = v3;
var<function> v150_store: u32;
let v150 = &v150_store;
*v150 = v3;
let v28 = &(*v420)[v13];
let v29 = *v28;
let v30 = u32(v29);
let v31 = v182 < v30;
if v31 {
var<function> v151_store: u32;
let v151 = &v151_store;
*v151 = v3;
var<function> v152_store: u32;
let v152 = &v152_store;
*v152 = v13;
loop {
let v37 = *v151;
let v38 = u32(1);
let v39 = v37 + v38;
let v40 = *v152;
let v41 = v39 < v40;
if !v41 { break; }
let v43 = *v151;
let v44 = *v152;
let v45 = v43 + v44;
let v46 = u32(2);
let v47 = v45 / v46;
let v51 = &(*v420)[v47];
let v52 = *v51;
let v53 = u32(v52);
let v54 = v53 <= v182;
if v54 {
*v151 = v47;

} else {
*v152 = v47;

}

}
let v57 = *v151;
let v59 = &(*v420)[v57];
let v60 = *v59;
let v61 = u32(v60);
let v63 = u32(1);
let v64 = v57 + v63;
let v68 = &(*v420)[v64];
let v69 = *v68;
let v70 = u32(v69);
let v75 = &(*v421)[v182];
let v76 = *v75;
let v77 = u32(v76);
let v78 = v77 / v15;
let v79 = v78 * v15;
var<function> v154_store: u32;
let v154 = &v154_store;
*v154 = v61;
var<function> v155_store: u32;
let v155 = &v155_store;
*v155 = v182;
loop {
let v83 = *v154;
let v84 = *v155;
let v85 = v83 < v84;
if !v85 { break; }
let v87 = *v154;
let v88 = *v155;
let v89 = v87 + v88;
let v90 = u32(2);
let v91 = v89 / v90;
let v95 = &(*v421)[v91];
let v96 = *v95;
let v97 = u32(v96);
let v98 = v97 < v79;
if v98 {
let v100 = v91 + v63;
*v154 = v100;

} else {
*v155 = v91;

}

}
let v101 = *v154;
*v149 = v101;
let v103 = v79 + v15;
var<function> v157_store: u32;
let v157 = &v157_store;
*v157 = v182;
var<function> v158_store: u32;
let v158 = &v158_store;
*v158 = v70;
loop {
let v106 = *v157;
let v107 = *v158;
let v108 = v106 < v107;
if !v108 { break; }
let v110 = *v157;
let v111 = *v158;
let v112 = v110 + v111;
let v113 = u32(2);
let v114 = v112 / v113;
let v118 = &(*v421)[v114];
let v119 = *v118;
let v120 = u32(v119);
let v121 = v120 < v103;
if v121 {
let v123 = v114 + v63;
*v157 = v123;

} else {
*v158 = v114;

}

}
let v124 = *v157;
*v150 = v124;

}
let v125 = *v149;
let v126 = u32(v125);
let v128 = u32(2);
let v129 = v128 * v182;
let v133 = &(*v419)[v129];
*v133 = v126;
let v134 = *v150;
let v135 = u32(v134);
let v139 = u32(1);
let v140 = v129 + v139;
let v144 = &(*v419)[v140];
*v144 = v135;

}
return;

}
