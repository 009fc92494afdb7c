var<workgroup> shared_v39: array<u32, 256>;
@group(0) @binding(3) var<storage, read_write> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(256, 1, 1)
fn drop_over_capacity(@builtin(workgroup_id) v270: vec3<u32>, @builtin(local_invocation_index) v272: u32) {
let v278 = &v13;
let v279 = &v9;
let v280 = &v5;
let v281 = &v1;
let v3 = u32(0);
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v19 = info_var.scalars_u32[0];
let v271 = v270[0];
let v21 = u32(v271);
let v25 = &(*v280)[v21];
let v26 = *v25;
let v27 = u32(v26);
let v28 = v21 < v17;
let v29 = u32(1);
let v30 = v21 + v29;
let v31 = min(v30, v17);
let v35 = &(*v280)[v31];
let v36 = *v35;
let v37 = u32(v36);
let v38 = select(v18, v37, v28);
let v254 = &shared_v39;
let v41 = u32(256);
let v43 = u32(0);
var<function> v255_store: u32;
let v255 = &v255_store;
*v255 = v43;
let v47 = u32(31);
let v48 = u32(1);
for(var v49: u32 = v43; v49 < v47; v49 += v48) {
let v51 = u32(30);
let v52 = v51 - v49;
let v54 = v48 << u32(v52);
let v55 = *v255;
let v56 = v55 | v54;
var<function> v257_store: u32;
let v257 = &v257_store;
*v257 = v43;
let v273 = v272;
let v61 = u32(v273);
let v62 = v27 + v61;
for(var v64: u32 = v62; v64 < v38; v64 += v41) {
let v69 = &(*v281)[v64];
let v70 = *v69;
let v71 = u32(v70);
let v75 = &(*v279)[v71];
let v76 = *v75;
let v77 = v76 >= v56;
let v80 = select(v43, v48, v77);
let v81 = *v257;
let v82 = v81 + v80;
*v257 = v82;

}
let v88 = &(*v254)[v61];
let v89 = *v257;
*v88 = v89;
workgroupBarrier();
var<function> v259_store: u32;
let v259 = &v259_store;
*v259 = v43;
for(var v96: u32 = v3; v96 < v41; v96 += v29) {
let v101 = &(*v254)[v96];
let v102 = *v101;
let v103 = *v259;
let v104 = v103 + v102;
*v259 = v104;

}
workgroupBarrier();
let v105 = *v259;
let v106 = v105 >= v19;
let v107 = *v255;
let v108 = select(v107, v56, v106);
*v255 = v108;

}
let v109 = *v255;
let v111 = v109 + v48;
var<function> v261_store: u32;
let v261 = &v261_store;
*v261 = v43;
let v275 = v272;
let v116 = u32(v275);
let v117 = v27 + v116;
for(var v119: u32 = v117; v119 < v38; v119 += v41) {
let v124 = &(*v281)[v119];
let v125 = *v124;
let v126 = u32(v125);
let v130 = &(*v279)[v126];
let v131 = *v130;
let v132 = v131 >= v111;
let v135 = select(v43, v48, v132);
let v136 = *v261;
let v137 = v136 + v135;
*v261 = v137;

}
let v143 = &(*v254)[v116];
let v144 = *v261;
*v143 = v144;
workgroupBarrier();
var<function> v263_store: u32;
let v263 = &v263_store;
*v263 = v43;
for(var v151: u32 = v3; v151 < v41; v151 += v29) {
let v156 = &(*v254)[v151];
let v157 = *v156;
let v158 = *v263;
let v159 = v158 + v157;
*v263 = v159;

}
workgroupBarrier();
let v162 = v38 - v27;
let v164 = v162 + v41;
let v166 = v164 - v29;
let v168 = v166 / v41;
let v169 = v116 * v168;
let v170 = v27 + v169;
let v171 = min(v170, v38);
let v172 = v171 + v168;
let v173 = min(v172, v38);
var<function> v265_store: u32;
let v265 = &v265_store;
*v265 = v43;
for(var v178: u32 = v171; v178 < v173; v178 += v29) {
let v183 = &(*v281)[v178];
let v184 = *v183;
let v185 = u32(v184);
let v189 = &(*v279)[v185];
let v190 = *v189;
let v191 = *v255;
let v192 = v190 == v191;
let v195 = select(v43, v48, v192);
let v196 = *v265;
let v197 = v196 + v195;
*v265 = v197;

}
let v202 = *v265;
*v143 = v202;
workgroupBarrier();
var<function> v267_store: u32;
let v267 = &v267_store;
let v204 = *v263;
*v267 = v204;
for(var v207: u32 = v3; v207 < v116; v207 += v29) {
let v212 = &(*v254)[v207];
let v213 = *v212;
let v214 = *v267;
let v215 = v214 + v213;
*v267 = v215;

}
for(var v217: u32 = v171; v217 < v173; v217 += v29) {
let v222 = &(*v281)[v217];
let v223 = *v222;
let v224 = u32(v223);
let v228 = &(*v279)[v224];
let v229 = *v228;
let v230 = *v255;
let v231 = v229 == v230;
let v233 = v229 > v230;
let v234 = *v267;
let v235 = v234 < v19;
let v236 = v231 && v235;
let v237 = v233 || v236;
let v240 = select(v43, v48, v231);
let v242 = v234 + v240;
*v267 = v242;
let v243 = select(v17, v21, v237);
let v244 = u32(v243);
let v248 = &(*v278)[v224];
*v248 = v244;

}
return;

}
